-- The RollUps that still need the rows of a chunk: a bucket that has a part in it is not computed whole yet, or has changed since; or
-- a chunk was attached or rewritten, and may have other rows.
-- Buckets that have lost rows already need no more of them: they stay as they are.
CREATE OR REPLACE FUNCTION thermocline._rollups_behind(p_chronotable_id int, p_from timestamptz, p_to timestamptz)
RETURNS TABLE (name text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT g.name
    FROM lakets._rollup_registry g,
         LATERAL (SELECT thermocline._buckets_over(g, tstzmultirange(tstzrange(p_from, p_to)))
                         - thermocline._buckets_over(g, (
                               SELECT coalesce(range_agg(tstzrange(d.range_start, d.range_end)), '{}')
                               FROM thermocline.dropped_range d WHERE d.chronotable_id = p_chronotable_id)) AS needed
                  OFFSET 0) w  -- computed once for each, not for whatever it is compared with
    WHERE g.source_chronotable_id = p_chronotable_id
      AND (upper(w.needed) > coalesce(g.complete_until, '-infinity')
           OR EXISTS (SELECT FROM thermocline._marks(g) m WHERE tstzrange(m.first_time, m.last_time, '[]') && w.needed)
           OR g.tracked AND EXISTS (
                  SELECT FROM lakets._chunk_metadata m JOIN thermocline._chunk_states(g.source_oid) c ON c.part = m.chunk_oid
                  WHERE m.chronotable_id = p_chronotable_id AND m.status <> 'dropped' AND c.state <> ALL (g.chunks)
                    AND tstzrange(m.range_start, m.range_end) && w.needed))
    ORDER BY g.name
$$;

COMMENT ON FUNCTION thermocline._rollups_behind(int, timestamptz, timestamptz) IS
    'The RollUps that still need the rows of a range.';
