-- A table streams once all of its chunks are covered, a RollUp once it is. From the last of their copies on its history is complete.
WITH streams AS (
UPDATE thermocline.synced_table s
SET status = 'STREAMING', complete_at = pg_catalog.clock_timestamp(),
    complete_lsn = greatest(s.streams_from, (SELECT max(k.position) FROM thermocline.chunk_copy k
                                             WHERE k.chronotable_id = s.chronotable_id)),
    sound_lsn = NULL, sound_at = NULL
WHERE s.status = 'SNAPSHOTTING'
  AND (s.of_rollup IS NULL OR EXISTS (SELECT FROM thermocline.chunk_copy k WHERE k.chunk_oid = s.table_oid))
  AND NOT EXISTS (
    SELECT FROM lakets._chunk_metadata m
    JOIN pg_catalog.pg_inherits i ON i.inhrelid = m.chunk_oid AND i.inhparent = s.table_oid
    WHERE m.chronotable_id = s.chronotable_id AND m.status <> 'dropped'
      AND NOT EXISTS (SELECT FROM thermocline.chunk_copy k WHERE k.chunk_oid = m.chunk_oid))
RETURNING s.chronotable_id
), known AS (
    DELETE FROM thermocline.unknown_span u USING streams t WHERE u.chronotable_id = t.chronotable_id
)
SELECT t.chronotable_id FROM streams t;
