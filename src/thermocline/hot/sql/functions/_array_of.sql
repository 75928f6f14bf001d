-- What first() and last() of arrays return: the array in their state. The other arguments only say of what type it is.
CREATE OR REPLACE FUNCTION lakets._array_of(p_state text[], p_value anyarray, p_time timestamptz) RETURNS anyarray
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET DateStyle = 'ISO, YMD'
SET IntervalStyle = 'postgres'
AS $$
BEGIN
    RETURN p_state[2];
END
$$;

COMMENT ON FUNCTION lakets._array_of(text[], anyarray, timestamptz) IS 'The array in a state of first() or last().';
