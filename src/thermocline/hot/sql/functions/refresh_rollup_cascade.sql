-- Refreshes a RollUp and all that it depends on, or every RollUp: dependencies first. Each keeps to its own refresh_lag.
CREATE OR REPLACE FUNCTION lakets.refresh_rollup_cascade(p_name text DEFAULT NULL)
RETURNS TABLE (rollup_name text, refreshed boolean, refresh_ms float8)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id    int;
    v_begun timestamptz;
BEGIN
    FOREACH v_id IN ARRAY lakets._build_rollup_dag(CASE WHEN p_name IS NOT NULL THEN ARRAY[thermocline._rollup_id(p_name)] END)
    LOOP
        v_begun := clock_timestamp();
        SELECT g.name INTO STRICT rollup_name FROM lakets._rollup_registry g WHERE g.id = v_id;
        refreshed := lakets.refresh_rollup(rollup_name);
        refresh_ms := extract(epoch FROM clock_timestamp() - v_begun) * 1000;
        RETURN NEXT;
    END LOOP;
END
$$;

COMMENT ON FUNCTION lakets.refresh_rollup_cascade(text) IS
    'Refreshes a RollUp after those it depends on, or all of them in order; false means within its refresh_lag or busy.';
