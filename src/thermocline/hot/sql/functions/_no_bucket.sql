-- Refuses an interval of which there are no buckets. Apart from time_bucket, which the planner sees through and could not if it said this.
CREATE OR REPLACE FUNCTION lakets._no_bucket(p_interval interval) RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'there are no buckets of %: their length is not positive', quote_literal(p_interval)
        USING HINT = 'Give a length of time, as interval ''15 minutes'' or interval ''1 month''.';
END
$$;

COMMENT ON FUNCTION lakets._no_bucket(interval) IS 'An error: buckets have a length.';
