-- The buckets of a RollUp below its watermark that have changed since they were computed and are computed anew with all of their keys.
-- Readers of a real-time view need no right on what this looks at.
CREATE OR REPLACE FUNCTION lakets._rollup_pending_whole(p_rollup_id int) RETURNS TABLE (bucket timestamptz, bucket_end timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM lakets._rollup_registry g, thermocline._marks(g) m WHERE g.id = p_rollup_id AND m.keys IS NULL) THEN
        RETURN QUERY SELECT p.bucket, p.bucket_end FROM lakets._rollup_pending(p_rollup_id) p WHERE p.keys IS NULL;
    END IF;
END
$$;

COMMENT ON FUNCTION lakets._rollup_pending_whole(int) IS
    'Buckets of a RollUp that have changed since they were computed, without those of which only single keys have.';
