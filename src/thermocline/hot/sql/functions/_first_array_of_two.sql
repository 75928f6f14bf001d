-- Joins what two workers have found for first() of arrays; of equal times the first state's wins.
CREATE OR REPLACE FUNCTION lakets._first_array_of_two(p_one text[], p_other text[]) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET DateStyle = 'ISO, YMD'
AS $$
BEGIN
    RETURN CASE WHEN p_other[1]::timestamptz < p_one[1]::timestamptz THEN p_other ELSE p_one END;
END
$$;

COMMENT ON FUNCTION lakets._first_array_of_two(text[], text[]) IS
    'Of two states of first() for arrays the one with the earliest time.';
