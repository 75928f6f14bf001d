-- The marks that a RollUp has not seen yet. Keys are told where its own are plain columns and none of them is NULL. What lies between
-- the end of what is whole and the watermark counts as marked: a forced drop has raised the watermark past rows that leave no mark.
-- One that is disabled has only those that somebody has asked for by hand.
CREATE OR REPLACE FUNCTION thermocline._marks(p_rollup lakets._rollup_registry)
RETURNS TABLE (first_time timestamptz, last_time timestamptz, keys jsonb, marked_at timestamptz, reason text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT l.first_time, l.last_time,
           CASE WHEN l.rollup_id IS NOT NULL AND cardinality(p_rollup.key_columns) > 0 AND l.keys ?& p_rollup.key_columns
                     AND NOT jsonb_path_exists(l.keys, '$.* ? (@ == null)')
                THEN l.keys END,
           l.invalidated_at, l.reason
    FROM lakets._rollup_invalidation_log l
    WHERE (p_rollup.tracked OR l.reason = 'by_hand')
      AND (l.rollup_id = p_rollup.id
           OR (l.rollup_id IS NULL AND l.chronotable_id = p_rollup.source_chronotable_id AND NOT p_rollup.id = ANY (l.told)))
      AND (p_rollup.seen IS NULL OR NOT pg_visible_in_snapshot(l.xid, p_rollup.seen))
    UNION ALL
    SELECT w.first_time, p_rollup.watermark - interval '1 microsecond', NULL, p_rollup.last_refreshed_at, 'not_whole'
    FROM (SELECT greatest(p_rollup.complete_until, min(m.range_start)) AS first_time FROM lakets._chunk_metadata m
          WHERE p_rollup.source_chronotable_id IS NULL
             OR (m.chronotable_id = p_rollup.source_chronotable_id AND m.status <> 'dropped')) w
    WHERE coalesce(p_rollup.complete_until, '-infinity') < p_rollup.watermark AND w.first_time < p_rollup.watermark
$$;

COMMENT ON FUNCTION thermocline._marks(lakets._rollup_registry) IS 'Marks that a RollUp has not seen to yet.';
