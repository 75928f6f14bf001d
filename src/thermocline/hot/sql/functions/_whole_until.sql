-- The start of a RollUp's bucket at the frontier: everything before it is whole once it is computed.
CREATE OR REPLACE FUNCTION thermocline._whole_until(p_rollup lakets._rollup_registry, p_frontier timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF isfinite(p_frontier) THEN
        RETURN (SELECT b.bucket FROM thermocline._buckets_of_rollup(p_rollup, ARRAY[p_frontier]) b);
    END IF;
    RETURN '-infinity';
END
$$;

COMMENT ON FUNCTION thermocline._whole_until(lakets._rollup_registry, timestamptz) IS 'The start of a RollUp''s bucket at the frontier.';
