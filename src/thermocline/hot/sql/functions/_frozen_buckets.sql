-- The buckets of a RollUp that touch a range that has left PostgreSQL, as times.
CREATE OR REPLACE FUNCTION thermocline._frozen_buckets(p_rollup_id int) RETURNS tstzmultirange
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT thermocline._buckets_over(p_rollup_id, thermocline._frozen(p_rollup_id))
$$;

COMMENT ON FUNCTION thermocline._frozen_buckets(int) IS 'The buckets of a RollUp that stay as they are.';
