-- Joins what two workers have found for last(); of equal times the first state's wins.
CREATE OR REPLACE FUNCTION lakets._last_of_two(p_one anyarray, p_other anyarray) RETURNS anyarray
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN CASE WHEN (array_lower(p_other, 1), array_lower(p_other, 2), array_lower(p_other, 3))
                     > (array_lower(p_one, 1), array_lower(p_one, 2), array_lower(p_one, 3))
                THEN p_other
                ELSE p_one END;
END
$$;

COMMENT ON FUNCTION lakets._last_of_two(anyarray, anyarray) IS 'Of two states of last() the one with the latest time.';
