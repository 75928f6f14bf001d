-- How many rows of a RollUp's source lie in these times, as the planner estimates; nothing is read.
CREATE OR REPLACE FUNCTION thermocline._planned_rows(p_rollup lakets._rollup_registry, p_times tstzmultirange) RETURNS bigint
LANGUAGE plpgsql VOLATILE  -- for EXPLAIN
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    c_most   constant int := 100;  -- ranges that are looked at; the others count as much
    v_time   regtype;
    v_where  text;
    v_plan   json;
BEGIN
    SELECT atttypid INTO STRICT v_time FROM pg_attribute
    WHERE attrelid = p_rollup.source_oid AND attname = p_rollup.source_time_column;
    SELECT string_agg(format('%1$I >= %2$L::timestamptz::%4$s AND %1$I < %3$L::timestamptz::%4$s', p_rollup.source_time_column,
                             coalesce(lower(r.one), '-infinity'), coalesce(upper(r.one), 'infinity'), v_time), ' OR ')
    INTO v_where FROM unnest(p_times) WITH ORDINALITY r (one, n) WHERE r.n <= c_most;
    IF v_where IS NULL THEN
        RETURN 0;
    END IF;
    EXECUTE format('EXPLAIN (FORMAT JSON) SELECT FROM %s WHERE %s', p_rollup.source_oid::regclass, v_where) INTO v_plan;
    RETURN (v_plan #>> '{0,Plan,Plan Rows}')::float8
           * greatest(1, (SELECT count(*) FROM unnest(p_times))::float8 / c_most);
END
$$;

COMMENT ON FUNCTION thermocline._planned_rows(lakets._rollup_registry, tstzmultirange) IS 'An estimate of the rows of a RollUp''s source in these times.';
