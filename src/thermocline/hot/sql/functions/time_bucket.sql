-- The start of the bucket that a time falls into, counted from an origin; months and years on the UTC calendar.
-- No SET clause, so that the planner can inline it; the body is bound when it is created, so no search_path can bend it.
CREATE OR REPLACE FUNCTION lakets.time_bucket(
    p_interval  interval,
    p_timestamp timestamptz,
    p_origin    timestamptz DEFAULT '2000-01-01 00:00:00+00'
) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    -- Whole months only: anything mixed goes to date_bin, which names the reason it refuses.
    WHEN p_interval = pg_catalog.make_interval(
             months => (extract(year FROM p_interval) * 12 + extract(month FROM p_interval))::int)
         AND extract(day FROM p_interval) = 0
         AND p_interval > interval '0'
         AND pg_catalog.isfinite(p_timestamp)
    THEN pg_catalog.timezone('UTC',
             pg_catalog.timezone('UTC', p_origin)
             + pg_catalog.make_interval(months => (
                 pg_catalog.floor(
                     (  (extract(year  FROM pg_catalog.timezone('UTC', p_timestamp))
                       - extract(year  FROM pg_catalog.timezone('UTC', p_origin))) * 12
                      + (extract(month FROM pg_catalog.timezone('UTC', p_timestamp))
                       - extract(month FROM pg_catalog.timezone('UTC', p_origin)))
                      -- the month is not reached yet when the time lies earlier in it than the origin in its own
                      - CASE WHEN pg_catalog.timezone('UTC', p_timestamp)
                                    - pg_catalog.date_trunc('month', pg_catalog.timezone('UTC', p_timestamp))
                                  < pg_catalog.timezone('UTC', p_origin)
                                    - pg_catalog.date_trunc('month', pg_catalog.timezone('UTC', p_origin))
                             THEN 1 ELSE 0 END)
                     / (extract(year FROM p_interval) * 12 + extract(month FROM p_interval)))
                 * (extract(year FROM p_interval) * 12 + extract(month FROM p_interval)))::int))
    ELSE pg_catalog.date_bin(p_interval, p_timestamp, p_origin)
END;

COMMENT ON FUNCTION lakets.time_bucket(interval, timestamptz, timestamptz) IS
    'Start of the bucket of p_interval that p_timestamp falls into, counted from p_origin.';
