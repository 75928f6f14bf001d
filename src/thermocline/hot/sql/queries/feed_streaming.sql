-- A table streams once all of its chunks are covered, a RollUp once it is.
UPDATE thermocline.synced_table s SET status = 'STREAMING'
WHERE s.status = 'SNAPSHOTTING'
  AND (s.of_rollup IS NULL OR EXISTS (SELECT FROM thermocline.chunk_copy k WHERE k.chunk_oid = s.table_oid))
  AND NOT EXISTS (
    SELECT FROM lakets._chunk_metadata m
    JOIN pg_catalog.pg_inherits i ON i.inhrelid = m.chunk_oid AND i.inhparent = s.table_oid
    WHERE m.chronotable_id = s.chronotable_id AND m.status <> 'dropped'
      AND NOT EXISTS (SELECT FROM thermocline.chunk_copy k WHERE k.chunk_oid = m.chunk_oid))
RETURNING s.chronotable_id;
