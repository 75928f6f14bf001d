-- The resident chunks that may have changed since p_since, by the marks of late writes and by where rows can still appear without
-- one. Nothing that changed is missing. Marks are kept until they are seen to: if no RollUp of the table remembers that far back,
-- every resident chunk is listed.
CREATE OR REPLACE FUNCTION lakets._get_dirty_chunks(p_chronotable_id int, p_since timestamptz)
RETURNS TABLE (chunk_id int, chunk_name text, range_start timestamptz, range_end timestamptz)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH witness AS MATERIALIZED (
        SELECT g FROM lakets._rollup_registry g
        WHERE g.source_chronotable_id = p_chronotable_id AND g.tracked AND g.last_refreshed_at <= p_since
        ORDER BY g.last_refreshed_at DESC LIMIT 1
    ), marks AS MATERIALIZED (
        SELECT k.first_time, k.last_time FROM witness w, thermocline._marks(w.g) k
    )
    SELECT m.id, m.chunk_name, m.range_start, m.range_end
    FROM lakets._chunk_metadata m LEFT JOIN witness w ON true
    WHERE m.chronotable_id = p_chronotable_id AND m.status <> 'dropped'
      AND ((w.g).id IS NULL
           OR EXISTS (SELECT FROM marks k WHERE k.first_time < m.range_end AND k.last_time >= m.range_start)
           OR (m.range_end > coalesce((w.g).complete_until, '-infinity') AND pg_relation_size(m.chunk_oid) > 0))
    ORDER BY m.range_start
$$;

COMMENT ON FUNCTION lakets._get_dirty_chunks(int, timestamptz) IS
    'Resident chunks of a ChronoTable that may have changed since a moment.';
