-- Marks the buckets of a RollUp from p_from to p_to, both included, to be computed anew; those whose rows have left PostgreSQL stay
-- as they are. Returns how many were marked.
CREATE OR REPLACE FUNCTION lakets.invalidate_rollup_range(p_name text, p_from timestamptz, p_to timestamptz) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
    v_id     int := thermocline._own_rollup_id(p_name);
    v_rollup lakets._rollup_registry;
    v_frozen tstzmultirange;
    v_marked int;
BEGIN
    SELECT * INTO STRICT v_rollup FROM lakets._rollup_registry WHERE id = v_id;
    IF NOT isfinite(p_from) OR NOT isfinite(p_to) OR p_to < p_from OR p_from IS NULL OR p_to IS NULL THEN
        RAISE EXCEPTION 'cannot mark % from % to %', p_name, coalesce(p_from::text, 'NULL'), coalesce(p_to::text, 'NULL')
            USING HINT = 'Give two moments, the earlier one first.';
    END IF;
    v_frozen := thermocline._frozen_buckets(v_rollup);
    INSERT INTO lakets._rollup_invalidation_log (rollup_id, bucket_start, first_time, last_time, reason)
    SELECT v_id, b.bucket, b.bucket, b.bucket, 'by_hand'
    FROM (SELECT DISTINCT f.bucket FROM thermocline._buckets_of_rollup(v_rollup, (
              SELECT array_agg(t) || p_to
              FROM generate_series(p_from, p_to, least(coalesce(thermocline._regular_step(v_rollup.bucket_expression), v_rollup.bucket_interval / 4),
                                                   interval '20 days')) t)) f) b
    WHERE NOT b.bucket <@ v_frozen;
    GET DIAGNOSTICS v_marked = ROW_COUNT;
    RETURN v_marked;
END
$$;

COMMENT ON FUNCTION lakets.invalidate_rollup_range(text, timestamptz, timestamptz) IS
    'Marks the buckets of a RollUp in a range, both ends included, to be computed anew; returns how many.';
