-- The buckets of a RollUp that touch a range that has left PostgreSQL, as times. Mostly there are none.
CREATE OR REPLACE FUNCTION thermocline._frozen_buckets(p_rollup lakets._rollup_registry) RETURNS tstzmultirange
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_frozen tstzmultirange := thermocline._frozen(p_rollup);
BEGIN
    RETURN CASE WHEN isempty(v_frozen) THEN v_frozen ELSE thermocline._buckets_over(p_rollup, v_frozen) END;
END
$$;

COMMENT ON FUNCTION thermocline._frozen_buckets(lakets._rollup_registry) IS 'The buckets of a RollUp that stay as they are.';
