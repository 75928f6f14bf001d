-- The step of first() for arrays: keeps the array whose time comes before the one that it has. The state has the time and the array as
-- text, written so that it loses nothing whatever the session's settings are.
CREATE OR REPLACE FUNCTION lakets._first_array_step(p_state text[], p_value anyarray, p_time timestamptz) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 3
SET DateStyle = 'ISO, YMD'
SET IntervalStyle = 'postgres'
AS $$
BEGIN
    RETURN CASE
        WHEN p_time < p_state[1]::timestamptz OR p_state IS NULL AND p_time IS NOT NULL THEN ARRAY[p_time::text, p_value::text]
        ELSE p_state
    END;
END
$$;

COMMENT ON FUNCTION lakets._first_array_step(text[], anyarray, timestamptz) IS
    'Step of first() for arrays: the one with the earliest time so far.';
