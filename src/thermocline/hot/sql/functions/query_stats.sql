-- The statements of this database that took the most time, as far as pg_stat_statements is there and its caller may see it.
CREATE OR REPLACE FUNCTION lakets.query_stats(p_limit int DEFAULT 20) RETURNS TABLE (
    query         text,
    calls         bigint,
    total_time_ms float8,
    mean_time_ms  float8,
    rows_returned bigint
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_view oid;
BEGIN
    IF p_limit IS NULL OR p_limit < 0 THEN
        RAISE EXCEPTION 'cannot show % statements', coalesce(p_limit::text, 'NULL') USING HINT = 'p_limit is 0 or more.';
    END IF;
    -- By the extension that owns it: a view of that name may be anybody's.
    SELECT c.oid INTO v_view
    FROM pg_extension x
    JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = x.oid AND d.classid = 'pg_class'::regclass
    JOIN pg_class c ON c.oid = d.objid AND c.relname = 'pg_stat_statements' AND c.relkind = 'v'
    WHERE x.extname = 'pg_stat_statements';
    IF v_view IS NULL OR NOT has_table_privilege(v_view, 'SELECT') THEN
        RETURN;
    END IF;
    RETURN QUERY EXECUTE format(
        'SELECT s.query, s.calls, s.total_exec_time, s.mean_exec_time, s.rows FROM %s s'
        ' WHERE s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())'
        ' ORDER BY s.total_exec_time DESC, s.queryid LIMIT $1', v_view::regclass) USING p_limit;
EXCEPTION
    WHEN object_not_in_prerequisite_state OR insufficient_privilege THEN
        RETURN;  -- made, but its library is not loaded; or its schema is closed to the caller
END
$$;

COMMENT ON FUNCTION lakets.query_stats(int) IS
    'The p_limit statements that took the most time by pg_stat_statements; empty without it.';
