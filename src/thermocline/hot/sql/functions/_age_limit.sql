-- The moment that lies an age before now: what ended by then is that old. Refuses what is no interval, a negative one, and one
-- that goes back beyond the times that PostgreSQL knows, in words that say which it is and whose.
CREATE OR REPLACE FUNCTION thermocline._age_limit(p_age text, p_what text, p_of text) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
    v_limit timestamptz;
BEGIN
    BEGIN
        v_limit := now() - p_age::interval;
    EXCEPTION
        WHEN data_exception THEN
            NULL;
    END;
    IF v_limit IS NULL OR NOT isfinite(v_limit) OR v_limit > now() OR p_age::interval < interval '0' THEN
        RAISE EXCEPTION '% of % is %, which is no age of a chunk', p_what, p_of, coalesce(quote_literal(p_age), 'missing')
            USING HINT = 'Give an interval, for example ''90 days''. Without a policy chunks stay for ever.';
    END IF;
    RETURN v_limit;
END
$$;

COMMENT ON FUNCTION thermocline._age_limit(text, text, text) IS
    'The moment that lies an age before now; an error if there is none.';
