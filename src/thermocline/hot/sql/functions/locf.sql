-- The last observation carried forward: what was measured, or what was before where nothing was.
CREATE OR REPLACE FUNCTION lakets.locf(p_value float8, p_prev_value float8 DEFAULT NULL) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(p_value, p_prev_value);

COMMENT ON FUNCTION lakets.locf(float8, float8) IS 'p_value, or p_prev_value if it is NULL.';
