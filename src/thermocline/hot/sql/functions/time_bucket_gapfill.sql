-- Every bucket from the one that p_start falls into to the one that p_finish falls into, both included, on the grid of
-- time_bucket. Join what you measured to it, and the gaps show.
CREATE OR REPLACE FUNCTION lakets.time_bucket_gapfill(
    p_interval interval,
    p_start    timestamptz,
    p_finish   timestamptz,
    p_origin   timestamptz DEFAULT '2000-01-01 00:00:00+00',
    p_timezone text        DEFAULT 'UTC'
) RETURNS SETOF timestamptz
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'  -- days are added by its clock; as an argument of generate_series there is one from PostgreSQL 16 on only
AS $$
DECLARE
    v_first timestamptz;
    v_last  timestamptz;
BEGIN
    IF p_interval IS NULL OR p_start IS NULL OR p_finish IS NULL OR p_origin IS NULL OR p_timezone IS NULL THEN
        RAISE EXCEPTION 'time_bucket_gapfill needs an interval, a start, a finish, an origin and a time zone, and one is NULL'
            USING HINT = 'A start or finish that is taken from a table is NULL while the table is empty.';
    END IF;
    IF NOT isfinite(p_start) OR NOT isfinite(p_finish) THEN
        RAISE EXCEPTION 'time_bucket_gapfill cannot fill from % to %', p_start, p_finish
            USING HINT = 'Give a start and a finish that are finite.';
    END IF;
    v_first := lakets.time_bucket(p_interval, p_start, p_origin, p_timezone);
    v_last  := lakets.time_bucket(p_interval, p_finish, p_origin, p_timezone);
    IF p_timezone = 'UTC' AND lakets._months_of(p_interval) IS NULL THEN
        RETURN QUERY SELECT generate_series(v_first, v_last, p_interval);
    ELSE  -- buckets of different lengths: look four times per bucket, so that none is missed and none is off the grid
        RETURN QUERY
        SELECT DISTINCT lakets.time_bucket(p_interval, g, p_origin, p_timezone)
        FROM generate_series(v_first, v_last, p_interval / 4) g
        UNION
        SELECT v_last WHERE v_first <= v_last
        ORDER BY 1;
    END IF;
END
$$;

COMMENT ON FUNCTION lakets.time_bucket_gapfill(interval, timestamptz, timestamptz, timestamptz, text) IS
    'Starts of all buckets of p_interval from p_start to p_finish, both ends included; none if p_start comes later.';
