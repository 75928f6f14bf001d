-- What lies on the straight line between two neighbours, where nothing was measured.
CREATE OR REPLACE FUNCTION lakets.interpolate(
    p_value      float8,
    p_prev_value float8,
    p_next_value float8,
    p_prev_time  timestamptz,
    p_curr_time  timestamptz,
    p_next_time  timestamptz
) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN p_value IS NOT NULL
    THEN p_value
    WHEN p_prev_value IS NULL OR p_next_value IS NULL OR p_prev_time IS NULL OR p_curr_time IS NULL OR p_next_time IS NULL
    THEN NULL
    WHEN p_prev_time = p_next_time
    THEN p_prev_value
    ELSE p_prev_value + (p_next_value - p_prev_value) * (pg_catalog.date_part('epoch', p_curr_time - p_prev_time)
                                                         / pg_catalog.date_part('epoch', p_next_time - p_prev_time))
END;

COMMENT ON FUNCTION lakets.interpolate(float8, float8, float8, timestamptz, timestamptz, timestamptz) IS
    'p_value, or if it is NULL the value at p_curr_time on the line between the neighbours; NULL if one of them is.';
