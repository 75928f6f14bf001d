-- The start of the bucket of p_months months that p_time falls into. A start that is clamped to the end of a shorter month
-- is still the start of its own bucket, so the candidate is compared with the time, never their days.
CREATE OR REPLACE FUNCTION lakets._month_bucket(p_months int, p_time timestamp, p_origin timestamp) RETURNS timestamp
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN p_origin + pg_catalog.make_interval(months => p_months * (
    pg_catalog.floor((lakets._calendar_month(p_time) - lakets._calendar_month(p_origin)) / p_months)
    - CASE WHEN p_origin + pg_catalog.make_interval(months => p_months * pg_catalog.floor(
                (lakets._calendar_month(p_time) - lakets._calendar_month(p_origin)) / p_months)::int) > p_time
           THEN 1 ELSE 0 END)::int);

COMMENT ON FUNCTION lakets._month_bucket(int, timestamp, timestamp) IS
    'Start of the bucket of p_months months that p_time falls into, counted from p_origin.';
