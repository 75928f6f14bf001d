-- The buckets of a RollUp within times that begin and end with buckets, each with its end.
CREATE OR REPLACE FUNCTION thermocline._listed_buckets(p_rollup lakets._rollup_registry, p_times tstzmultirange)
RETURNS TABLE (bucket timestamptz, bucket_end timestamptz)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
    -- By the clock of a zone there are shorter ones.
    v_step  interval := least(coalesce(thermocline._regular_step(p_rollup.bucket_expression), p_rollup.bucket_interval / 4),
                              interval '20 days');
    v_times timestamptz[];
BEGIN
    SELECT array_agg(t) INTO v_times
    FROM unnest(p_times) r, generate_series(lower(r), upper(r) - interval '1 microsecond', v_step) t;
    RETURN QUERY
    SELECT e.bucket, e.bucket_end
    FROM thermocline._bucket_ends(p_rollup, ARRAY(SELECT DISTINCT b.bucket FROM thermocline._buckets_of_rollup(p_rollup, v_times) b)) e
    WHERE e.bucket <@ p_times
    ORDER BY e.bucket;
END
$$;

COMMENT ON FUNCTION thermocline._listed_buckets(lakets._rollup_registry, tstzmultirange) IS 'The buckets of a RollUp within some times.';
