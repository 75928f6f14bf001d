-- The buckets of a RollUp that have a part in any of these times, as times.
CREATE OR REPLACE FUNCTION thermocline._buckets_over(p_rollup_id int, p_times tstzmultirange) RETURNS tstzmultirange
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH edges AS (
        SELECT lower(r) AS first, upper(r) - interval '1 microsecond' AS last FROM unnest(p_times) r
    ), step AS (
        SELECT bucket_interval FROM lakets._rollup_registry WHERE id = p_rollup_id
    ), aligned AS (
        SELECT f.bucket AS first, n.bucket AS after
        FROM edges e
        JOIN thermocline._buckets_of_rollup(p_rollup_id, (SELECT array_agg(first) FROM edges)) f ON f.t = e.first
        JOIN thermocline._buckets_of_rollup(p_rollup_id, (SELECT array_agg(last) FROM edges)) l ON l.t = e.last,
        LATERAL thermocline._buckets_of_rollup(p_rollup_id, ARRAY[l.bucket + (SELECT bucket_interval * 1.5 FROM step)]) n
    )
    SELECT coalesce(range_agg(tstzrange(first, after)), '{}') FROM aligned
$$;

COMMENT ON FUNCTION thermocline._buckets_over(int, tstzmultirange) IS 'The buckets of a RollUp that have a part in these times.';
