-- The start of the bucket that a time falls into, counted from an origin; in UTC unless a time zone is named.
-- No SET clause, so that the planner can inline it; the body is bound when it is created, so no search_path can bend it.
-- An interval that mixes months with days goes to date_bin, which names the reason it refuses.
CREATE OR REPLACE FUNCTION lakets.time_bucket(
    p_interval  interval,
    p_timestamp timestamptz,
    p_origin    timestamptz DEFAULT '2000-01-01 00:00:00+00',
    p_timezone  text        DEFAULT 'UTC'
) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN p_interval <= interval '0'
    THEN lakets._no_bucket(p_interval)
    WHEN p_timezone <> 'UTC'
    THEN lakets._zone_bucket(p_interval, p_timestamp, p_origin, p_timezone)
    WHEN p_timezone IS NULL
    THEN NULL
    WHEN lakets._months_of(p_interval) IS NOT NULL AND pg_catalog.isfinite(p_timestamp) AND pg_catalog.isfinite(p_origin)
    THEN pg_catalog.timezone('UTC', lakets._month_bucket(
             lakets._months_of(p_interval),
             pg_catalog.timezone('UTC', p_timestamp),
             pg_catalog.timezone('UTC', p_origin)))
    WHEN lakets._months_of(p_interval) IS NOT NULL AND pg_catalog.isfinite(p_origin)
    THEN p_timestamp
    ELSE pg_catalog.date_bin(p_interval, p_timestamp, p_origin)
END;

COMMENT ON FUNCTION lakets.time_bucket(interval, timestamptz, timestamptz, text) IS
    'Start of the bucket of p_interval that p_timestamp falls into, counted from p_origin, by the clock of p_timezone. Where '
    'that clock is put forward or back, a bucket may be shorter or longer; it never overlaps another one.';
