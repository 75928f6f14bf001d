-- time_bucket by the clock of a time zone. The default origin is midnight of 2000-01-01 there; any other is an instant.
-- An hour that the clock shows twice belongs to two buckets if the interval is shorter than a day, and to one otherwise. When
-- the clock is put back into the middle of a bucket that is over, the one that was open stays open until the clock shows
-- the next start: buckets never go back in time.
CREATE OR REPLACE FUNCTION lakets._zone_bucket(
    p_interval  interval,
    p_timestamp timestamptz,
    p_origin    timestamptz,
    p_timezone  text
) RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_months int       := lakets._months_of(p_interval);
    v_local  timestamp := timezone(p_timezone, p_timestamp);
    v_origin timestamp := CASE WHEN p_origin = timestamptz '2000-01-01 00:00:00+00' THEN timestamp '2000-01-01'
                               ELSE timezone(p_timezone, p_origin) END;
    v_start  timestamp;
    v_same   timestamptz;
    v_after  timestamptz;
    v_before timestamptz;
    v_skip   interval;
    v_offset interval;
    v_back   interval;
    v_open   timestamptz;
BEGIN
    IF NOT isfinite(p_timestamp) THEN
        RETURN p_timestamp;
    END IF;
    v_offset := v_local - timezone('UTC', p_timestamp);
    v_same   := p_timestamp - interval '24 hours';
    v_back   := timezone(p_timezone, v_same) - timezone('UTC', v_same) - v_offset;
    IF v_back > interval '0' THEN  -- put back on this day: which bucket was open at that moment, if the clock shows a time again?
        v_before := p_timestamp - v_back;
        IF timezone(p_timezone, v_before) - timezone('UTC', v_before) <> v_offset THEN
            v_before := lakets._clock_change(p_timezone, v_before, p_timestamp) - interval '1 microsecond';
            v_open := lakets._zone_bucket(p_interval, v_before, p_origin, p_timezone);
        END IF;
    END IF;
    IF v_months IS NOT NULL THEN
        v_start := lakets._month_bucket(v_months, v_local, v_origin);
    ELSE
        v_start := date_bin(p_interval, v_local, v_origin);
    END IF;
    IF p_interval < interval '1 day' THEN
        v_same := p_timestamp - (v_local - v_start);
    ELSE  -- the first of two midnights, or most of such a day would have another bucket than its first hour
        v_same := timezone(p_timezone, v_start) - interval '1 hour';
    END IF;
    IF timezone(p_timezone, v_same) = v_start THEN
        RETURN greatest(v_same, v_open);
    END IF;
    v_after := timezone(p_timezone, v_start);
    IF timezone(p_timezone, v_after) = v_start THEN
        RETURN greatest(v_after, v_open);
    END IF;
    -- The clock skips that moment: the bucket begins when it has been put forward, which is somewhere between the two.
    v_skip := timezone(p_timezone, v_after) - v_start;
    RETURN greatest(lakets._clock_change(p_timezone, v_after - v_skip, v_after), v_open);
END
$$;

COMMENT ON FUNCTION lakets._zone_bucket(interval, timestamptz, timestamptz, text) IS
    'Start of the bucket that a time falls into by the clock of a time zone.';
