-- Which of some buckets of one width a value falls into. What lies outside goes to the outermost bucket on its side.
CREATE OR REPLACE FUNCTION lakets.histogram(p_value float8, p_min float8, p_max float8, p_num_buckets int) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN p_num_buckets < 1 OR p_min >= p_max OR p_min = '-Infinity' OR p_max IN ('Infinity', 'NaN')
    THEN lakets._no_histogram(p_min, p_max, p_num_buckets)
    WHEN p_value <> 'NaN'
    THEN GREATEST(0, LEAST(p_num_buckets, pg_catalog.width_bucket(p_value, p_min, p_max, p_num_buckets)) - 1)
         + CASE WHEN p_min IS NULL OR p_max IS NULL OR p_num_buckets IS NULL THEN NULL ELSE 0 END
END;

COMMENT ON FUNCTION lakets.histogram(float8, float8, float8, int) IS
    'Number of the bucket that p_value falls into, from 0 to p_num_buckets - 1; NULL for NULL and NaN.';
