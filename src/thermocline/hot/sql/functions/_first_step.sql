-- The step of first(): keeps the value whose time comes before the one that it has. PostgreSQL has no type for a value of
-- any type with a time, so the state is an array with the value as its one element and the time, in microseconds, in its
-- three lower bounds. Compared with the value as text this loses nothing, whatever the type and the session's settings.
CREATE OR REPLACE FUNCTION lakets._first_step(p_state anyarray, p_value anynonarray, p_time timestamptz) RETURNS anyarray
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_time bigint := CASE WHEN isfinite(p_time) THEN (extract(epoch FROM p_time) - 946684800) * 1000000
                          WHEN p_time > 'epoch' THEN 9223372036854775807
                          WHEN p_time < 'epoch' THEN -9223372036854775808 END;
BEGIN
    RETURN CASE
        WHEN v_time < array_lower(p_state, 1) * 1000000000000 + array_lower(p_state, 2) * bigint '1000000'
                       + array_lower(p_state, 3)
             OR p_state IS NULL AND v_time IS NOT NULL
        THEN array_fill(p_value, '{1,1,1}', ARRAY[(v_time / 1000000000000)::int, (v_time / 1000000 % 1000000)::int,
                                                  (v_time % 1000000)::int])
        ELSE p_state
    END;
END
$$;

COMMENT ON FUNCTION lakets._first_step(anyarray, anynonarray, timestamptz) IS
    'Step of first(): the value with the earliest time so far.';
