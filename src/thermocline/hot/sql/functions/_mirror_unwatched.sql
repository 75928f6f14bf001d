-- The table and the chunks of a ChronoTable in shadow mode that somebody has taken triggers from, or switched them off, with the times that
-- each is about: what was written to them since then is not in the mirror.
CREATE OR REPLACE FUNCTION thermocline._mirror_unwatched(p_chronotable_id int) RETURNS TABLE (relation oid, times tstzrange)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT w.relation, w.times
    FROM thermocline.synced_table s
    JOIN thermocline.mirror m ON m.chronotable_id = s.chronotable_id,
    LATERAL (
        SELECT s.table_oid, tstzrange '(,)'
        UNION ALL
        SELECT k.chunk_oid, tstzrange(k.range_start, k.range_end)
        FROM lakets._chunk_metadata k
        JOIN pg_inherits i ON i.inhrelid = k.chunk_oid AND i.inhparent = s.table_oid AND NOT i.inhdetachpending
        WHERE k.chronotable_id = s.chronotable_id AND k.status <> 'dropped'
    ) w (relation, times)
    WHERE s.chronotable_id = p_chronotable_id
      AND (SELECT count(*) FROM pg_trigger t
           WHERE t.tgrelid = w.relation AND t.tgfoid = 'thermocline._mirrored()'::regprocedure AND t.tgenabled = 'A') < 4
$$;

COMMENT ON FUNCTION thermocline._mirror_unwatched(int) IS 'What of a table in shadow mode lacks the triggers that keep its mirror.';
