-- Who has fallen silent: the keys of a ChronoTable whose newest row is older than a timeout. Keys whose rows have all left
-- PostgreSQL are not known any more.
CREATE OR REPLACE FUNCTION lakets.alert_deadman(
    p_name        text,
    p_table_name  text,
    p_group_by    text,
    p_timeout     interval,
    p_schema_name text DEFAULT 'public'
) RETURNS TABLE (
    alert_name text,
    severity   text,
    fired_at   timestamptz,
    dead_key   text,
    last_seen  timestamptz,
    silent_for interval
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
    v_table  lakets._chronotable_registry;
    v_column text;
BEGIN
    IF p_name IS NULL OR p_group_by IS NULL OR p_timeout IS NULL THEN
        RAISE EXCEPTION 'cannot check the alert %: an argument is NULL', coalesce(quote_ident(p_name), 'NULL')
            USING HINT = 'Give a name, a table, the column of the keys and a timeout.';
    END IF;
    IF p_timeout <= interval '0' THEN
        RAISE EXCEPTION 'cannot check the alert %: the timeout % is not positive', quote_ident(p_name), quote_literal(p_timeout)
            USING HINT = 'Give the longest silence that is fine, as interval ''10 minutes''.';
    END IF;
    PERFORM lakets._table_oid(p_table_name, p_schema_name);
    SELECT * INTO STRICT v_table FROM lakets._chronotable_registry
    WHERE id = lakets._chronotable_id(p_table_name, p_schema_name);
    IF p_group_by !~ '^([A-Za-z_]|[^\x01-\x7f])([A-Za-z0-9_$]|[^\x01-\x7f])*$' THEN
        RAISE EXCEPTION 'cannot check the alert %: % is not a plain identifier', quote_ident(p_name), quote_literal(p_group_by)
            USING HINT = 'p_group_by is the name of one column, without quotes and expressions.';
    END IF;
    SELECT attname INTO v_column FROM pg_attribute
    WHERE attrelid = v_table.table_oid AND attnum > 0 AND NOT attisdropped AND attname IN (p_group_by, lower(p_group_by))
    ORDER BY attname = p_group_by DESC LIMIT 1;
    IF v_column IS NULL THEN
        RAISE EXCEPTION 'cannot check the alert %: %.% has no column %', quote_ident(p_name), quote_ident(p_schema_name),
            quote_ident(p_table_name), quote_ident(p_group_by) USING HINT = 'p_group_by is the column whose keys must report.';
    END IF;
    RETURN QUERY EXECUTE format(
        'SELECT $1, ''critical'', now(), %1$I::text, max(%2$I)::timestamptz, now() - max(%2$I)::timestamptz'
        ' FROM %3$s GROUP BY %1$I HAVING max(%2$I)::timestamptz < now() - $2 ORDER BY 5, 4',
        v_column, v_table.time_column, v_table.table_oid::regclass)
    USING p_name, p_timeout;
END
$$;

COMMENT ON FUNCTION lakets.alert_deadman(text, text, text, interval, text) IS
    'One critical alert per key of p_group_by whose newest row is older than p_timeout, the longest silent first.';
