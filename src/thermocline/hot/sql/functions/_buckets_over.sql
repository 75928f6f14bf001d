-- The buckets of a RollUp that have a part in any of these times, as times.
CREATE OR REPLACE FUNCTION thermocline._buckets_over(p_rollup lakets._rollup_registry, p_times tstzmultirange) RETURNS tstzmultirange
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH edges AS (
        SELECT lower(r) AS first, upper(r) - interval '1 microsecond' AS last FROM unnest(p_times) r
    ), aligned AS (
        SELECT f.bucket AS first, n.bucket_end AS after
        FROM edges e
        JOIN thermocline._buckets_of_rollup(p_rollup, (SELECT array_agg(first) FROM edges)) f ON f.t = e.first
        JOIN thermocline._buckets_of_rollup(p_rollup, (SELECT array_agg(last) FROM edges)) l ON l.t = e.last,
        LATERAL thermocline._bucket_ends(p_rollup, ARRAY[l.bucket]) n
    )
    SELECT coalesce(range_agg(tstzrange(first, after)), '{}') FROM aligned
$$;

COMMENT ON FUNCTION thermocline._buckets_over(lakets._rollup_registry, tstzmultirange) IS 'The buckets of a RollUp that have a part in these times.';
