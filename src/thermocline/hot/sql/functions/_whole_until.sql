-- The start of a RollUp's bucket at the frontier: everything before it is whole once it is computed.
CREATE OR REPLACE FUNCTION thermocline._whole_until(p_rollup_id int, p_frontier timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF isfinite(p_frontier) THEN
        RETURN (SELECT b.bucket FROM thermocline._buckets_of_rollup(p_rollup_id, ARRAY[p_frontier]) b);
    END IF;
    RETURN '-infinity';
END
$$;

COMMENT ON FUNCTION thermocline._whole_until(int, timestamptz) IS 'The start of a RollUp''s bucket at the frontier.';
