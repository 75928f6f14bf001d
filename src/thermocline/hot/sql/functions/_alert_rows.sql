-- Runs the query of an alert under the search path of its caller. STABLE, so that PostgreSQL refuses a query that writes.
CREATE OR REPLACE FUNCTION lakets._alert_rows(p_name text, p_query text, p_severity text, p_search_path text)
RETURNS TABLE (alert_name text, severity text, fired_at timestamptz, alert_data jsonb)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_row record;
BEGIN
    IF p_name IS NULL OR p_query IS NULL OR p_severity IS NULL THEN
        RAISE EXCEPTION 'cannot check the alert %: an argument is NULL', coalesce(quote_ident(p_name), 'NULL')
            USING HINT = 'Give a name, a query that returns the rows to be alarmed at, and a severity.';
    END IF;
    PERFORM pg_catalog.set_config('search_path', p_search_path, true);  -- for the query; ends with this function
    FOR v_row IN EXECUTE p_query LOOP
        alert_name := p_name;
        severity   := p_severity;
        fired_at   := pg_catalog.now();
        alert_data := pg_catalog.to_jsonb(v_row);
        RETURN NEXT;
    END LOOP;
END
$$;

COMMENT ON FUNCTION lakets._alert_rows(text, text, text, text) IS 'One row per row of an alert''s query.';
