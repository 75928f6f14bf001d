-- time_bucket by the clock of a time zone. The default origin is midnight of 2000-01-01 there; any other is an instant.
-- An hour that the clock shows twice belongs to two buckets if the interval is shorter than a day, and to one otherwise.
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
BEGIN
    IF NOT isfinite(p_timestamp) THEN
        RETURN p_timestamp;
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
    RETURN CASE WHEN timezone(p_timezone, v_same) = v_start THEN v_same ELSE timezone(p_timezone, v_start) END;
END
$$;

COMMENT ON FUNCTION lakets._zone_bucket(interval, timestamptz, timestamptz, text) IS
    'Start of the bucket that a time falls into by the clock of a time zone.';
