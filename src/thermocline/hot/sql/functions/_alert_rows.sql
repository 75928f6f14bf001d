-- Runs the query of an alert under the search path of its caller. STABLE, so that PostgreSQL refuses a query that writes, and through a
-- cursor, so that it refuses several. Only its own refusals are told in other words, not what goes wrong in the query later.
CREATE OR REPLACE FUNCTION lakets._alert_rows(p_name text, p_query text, p_severity text, p_search_path text)
RETURNS TABLE (alert_name text, severity text, fired_at timestamptz, alert_data jsonb)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_rows refcursor;
    v_row  record;
BEGIN
    IF p_name IS NULL OR p_query IS NULL OR p_severity IS NULL THEN
        RAISE EXCEPTION 'cannot check the alert %: an argument is NULL', coalesce(quote_ident(p_name), 'NULL')
            USING HINT = 'Give a name, a query that returns the rows to be alarmed at, and a severity.';
    END IF;
    PERFORM pg_catalog.set_config('search_path', p_search_path, true);  -- for the query; ends with this function
    BEGIN
        OPEN v_rows FOR EXECUTE p_query;
    EXCEPTION
        WHEN invalid_cursor_definition THEN
            RAISE EXCEPTION 'cannot check the alert %: it is not one query that returns rows', pg_catalog.quote_ident(p_name)
                USING DETAIL = SQLERRM, HINT = 'Give one SELECT; of several, each is an alert of its own.';
        WHEN feature_not_supported THEN
            RAISE EXCEPTION 'cannot check the alert %: %', pg_catalog.quote_ident(p_name), SQLERRM
                USING HINT = 'Give a query that only reads: a SELECT that writes nothing and locks no rows.';
    END;
    LOOP
        FETCH v_rows INTO v_row;
        EXIT WHEN NOT FOUND;
        alert_name := p_name;
        severity   := p_severity;
        fired_at   := pg_catalog.now();
        alert_data := pg_catalog.to_jsonb(v_row);
        RETURN NEXT;
    END LOOP;
    CLOSE v_rows;
END
$$;

COMMENT ON FUNCTION lakets._alert_rows(text, text, text, text) IS 'One row per row of an alert''s query.';
