-- The first moment in a time zone at which its clock is as it is at p_after, if it is another one at p_before: found by halves, to
-- the microsecond.
CREATE OR REPLACE FUNCTION lakets._clock_change(p_timezone text, p_before timestamptz, p_after timestamptz) RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_offset constant interval := timezone(p_timezone, p_after) - timezone('UTC', p_after);
    v_before timestamptz := p_before;
    v_after  timestamptz := p_after;
    v_middle timestamptz;
BEGIN
    WHILE v_after - v_before > interval '1 microsecond' LOOP
        v_middle := v_before + (v_after - v_before) / 2;
        IF timezone(p_timezone, v_middle) - timezone('UTC', v_middle) = v_offset THEN
            v_after := v_middle;
        ELSE
            v_before := v_middle;
        END IF;
    END LOOP;
    RETURN v_after;
END
$$;

COMMENT ON FUNCTION lakets._clock_change(text, timestamptz, timestamptz) IS 'When the clock of a time zone was put to what it shows.';
