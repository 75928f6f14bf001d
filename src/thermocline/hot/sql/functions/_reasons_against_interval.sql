-- What speaks against an interval as the length of chunks by a time column of this type; empty when nothing does.
CREATE OR REPLACE FUNCTION lakets._reasons_against_interval(p_interval interval, p_time_type oid) RETURNS text[]
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH given AS (
        SELECT (extract(year FROM p_interval) * 12 + extract(month FROM p_interval))::int AS months
    ), checked (reason) AS (
        SELECT CASE
            WHEN p_interval IS NULL THEN 'the chunk interval is NULL'
            WHEN p_interval <= interval '0' THEN format('the chunk interval %s is not positive', p_interval)
            WHEN p_interval > interval '100 years' THEN format('the chunk interval %s is longer than 100 years', p_interval)
            WHEN months > 0 AND p_interval <> make_interval(months => months)
                THEN format('the chunk interval %s mixes months with days or hours', p_interval)
            WHEN p_interval < interval '1 second' OR extract(microseconds FROM p_interval)::bigint % 1000000 <> 0
                THEN format('the chunk interval %s is not of whole seconds', p_interval)
            WHEN p_time_type = 'date'::regtype AND extract(epoch FROM p_interval)::bigint % 86400 <> 0
                THEN format('its time column is a date, so chunks of %s make no sense', p_interval)
        END
        FROM given
    )
    SELECT array_remove(array_agg(reason), NULL) FROM checked
$$;

COMMENT ON FUNCTION lakets._reasons_against_interval(interval, oid) IS
    'What speaks against an interval as the length of chunks; empty when nothing does.';
