-- Refuses a histogram that cannot be drawn; a function of its own, so that histogram() stays one expression.
CREATE OR REPLACE FUNCTION lakets._no_histogram(p_min float8, p_max float8, p_num_buckets int) RETURNS int
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'there is no histogram of % buckets from % to %', p_num_buckets, p_min, p_max
        USING HINT = 'p_min must be less than p_max, both finite, and p_num_buckets at least 1.';
END
$$;

COMMENT ON FUNCTION lakets._no_histogram(float8, float8, int) IS 'An error that says what is wrong with a histogram.';
