-- The marks that a RollUp has not seen yet. Keys are told where its own are plain columns and none of them is NULL. What lies between
-- the end of what is whole and the watermark counts as marked: a forced drop has raised the watermark past rows that leave no mark.
CREATE OR REPLACE FUNCTION thermocline._marks(p_rollup_id int)
RETURNS TABLE (first_time timestamptz, last_time timestamptz, keys jsonb, marked_at timestamptz, reason text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT l.first_time, l.last_time,
           CASE WHEN l.rollup_id IS NOT NULL AND cardinality(g.key_columns) > 0 AND l.keys ?& g.key_columns
                     AND NOT jsonb_path_exists(l.keys, '$.* ? (@ == null)')
                THEN l.keys END,
           l.invalidated_at, l.reason
    FROM lakets._rollup_registry g
    JOIN lakets._rollup_invalidation_log l
      ON l.rollup_id = g.id
         OR (l.rollup_id IS NULL AND l.chronotable_id = g.source_chronotable_id AND NOT g.id = ANY (l.told))
    WHERE g.id = p_rollup_id AND g.tracked
      AND (g.seen IS NULL OR NOT pg_visible_in_snapshot(l.xid, g.seen))
    UNION ALL
    SELECT w.first_time, g.watermark - interval '1 microsecond', NULL, g.last_refreshed_at, 'not_whole'
    FROM lakets._rollup_registry g,
         LATERAL (SELECT greatest(g.complete_until, min(m.range_start)) AS first_time FROM lakets._chunk_metadata m
                  WHERE g.source_chronotable_id IS NULL
                     OR (m.chronotable_id = g.source_chronotable_id AND m.status <> 'dropped')) w
    WHERE g.id = p_rollup_id AND coalesce(g.complete_until, '-infinity') < g.watermark AND w.first_time < g.watermark
$$;

COMMENT ON FUNCTION thermocline._marks(int) IS 'Marks that a RollUp has not seen to yet.';
