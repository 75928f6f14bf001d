-- How much a counter grows in a second.
CREATE OR REPLACE FUNCTION lakets.rate(
    p_value         float8,
    p_prev_value    float8,
    p_time          timestamptz,
    p_prev_time     timestamptz,
    p_handle_resets boolean DEFAULT true
) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN lakets.delta(p_value, p_prev_value, p_handle_resets)
       / NULLIF(pg_catalog.date_part('epoch', p_time - p_prev_time), 0);

COMMENT ON FUNCTION lakets.rate(float8, float8, timestamptz, timestamptz, boolean) IS
    'delta() per second between the two times; NULL if they are equal or one is NULL.';
