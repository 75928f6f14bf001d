-- How much a counter has grown. A counter that fell was reset and has counted from nought since.
CREATE OR REPLACE FUNCTION lakets.delta(
    p_value         float8,
    p_prev_value    float8,
    p_handle_resets boolean DEFAULT true
) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN p_handle_resets AND p_value < p_prev_value AND p_prev_value <> 'NaN'  -- a NaN is above every number, yet no count
    THEN p_value
    WHEN p_handle_resets IS NOT NULL
    THEN p_value - p_prev_value
END;

COMMENT ON FUNCTION lakets.delta(float8, float8, boolean) IS
    'p_value less p_prev_value; p_value itself after a reset, unless p_handle_resets is false; NULL if one of them is.';
