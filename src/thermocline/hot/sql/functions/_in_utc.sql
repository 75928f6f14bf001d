-- An expression of type timestamptz as one of the given type of time, by the clock of UTC, whatever the session's zone is.
CREATE OR REPLACE FUNCTION thermocline._in_utc(p_expression text, p_type regtype) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN p_type = 'timestamptz'::regtype THEN p_expression
                ELSE format('(%s AT TIME ZONE ''UTC'')::%s', p_expression, p_type) END
$$;

COMMENT ON FUNCTION thermocline._in_utc(text, regtype) IS 'The text of an expression of time in another type.';
