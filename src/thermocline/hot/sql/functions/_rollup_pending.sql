-- The buckets of a RollUp below its watermark that have changed since they were computed: with the keys concerned where they are
-- known, whole otherwise. Buckets that touch a range that has left PostgreSQL are not among them: they are frozen. Readers of the
-- real-time view need no right on what this looks at.
CREATE OR REPLACE FUNCTION lakets._rollup_pending(p_rollup_id int)
RETURNS TABLE (bucket timestamptz, bucket_end timestamptz, keys jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_rollup lakets._rollup_registry;
    v_frozen tstzmultirange;
    v_step   interval;
BEGIN
    SELECT * INTO v_rollup FROM lakets._rollup_registry WHERE id = p_rollup_id;
    IF (coalesce(v_rollup.complete_until, '-infinity') < v_rollup.watermark) IS NOT TRUE
       AND NOT EXISTS (SELECT FROM lakets._rollup_invalidation_log l WHERE l.rollup_id = v_rollup.id)
       AND NOT EXISTS (SELECT FROM lakets._rollup_invalidation_log l
                       WHERE l.rollup_id IS NULL AND l.chronotable_id = v_rollup.source_chronotable_id) THEN
        RETURN;  -- soon told, and mostly so
    END IF;
    v_frozen := thermocline._frozen(v_rollup);
    -- By the clock of a zone there are shorter ones.
    v_step := least(coalesce(thermocline._regular_step(v_rollup.bucket_expression), v_rollup.bucket_interval / 4), interval '20 days');
    RETURN QUERY
    WITH marked AS MATERIALIZED (
        SELECT m.first_time, least(m.last_time, v_rollup.watermark) AS last_time, m.keys FROM thermocline._marks(v_rollup) m
        WHERE m.first_time < v_rollup.watermark
    ), moments AS MATERIALIZED (
        SELECT m.first_time AS t, m.keys FROM marked m
        UNION
        SELECT m.last_time, m.keys FROM marked m WHERE m.last_time > m.first_time
        UNION
        SELECT g.t, m.keys
        FROM marked m,
             generate_series(m.first_time, m.last_time, v_step) g (t)
        WHERE m.last_time > m.first_time
    ), found AS MATERIALIZED (
        SELECT DISTINCT b.bucket, m.keys
        FROM thermocline._buckets_of_rollup(v_rollup, (SELECT array_agg(DISTINCT t) FROM moments)) b
        JOIN moments m ON m.t = b.t
        WHERE b.bucket < v_rollup.watermark
    ), ended AS (
        SELECT e.bucket, e.bucket_end FROM thermocline._bucket_ends(v_rollup, (SELECT array_agg(DISTINCT f.bucket) FROM found f)) e
    )
    SELECT f.bucket, e.bucket_end, f.keys
    FROM found f JOIN ended e ON e.bucket = f.bucket
    WHERE NOT tstzrange(f.bucket, e.bucket_end) && v_frozen
      AND (f.keys IS NULL OR NOT EXISTS (SELECT FROM found w WHERE w.bucket = f.bucket AND w.keys IS NULL))
    ORDER BY f.bucket;  -- whoever looks up their rows finds those of neighbours beside each other
END
$$;

COMMENT ON FUNCTION lakets._rollup_pending(int) IS
    'Buckets of a RollUp that have changed since they were computed, with the keys concerned, NULL for all.';
