-- What first() and last() return: the one element of their state, whose bounds are the time.
CREATE OR REPLACE FUNCTION lakets._value_of(p_state anyarray) RETURNS anyelement
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN p_state[array_lower(p_state, 1)][array_lower(p_state, 2)][array_lower(p_state, 3)];
END
$$;

COMMENT ON FUNCTION lakets._value_of(anyarray) IS 'The value in a state of first() or last().';
