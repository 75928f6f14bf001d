-- Synced tables whose registered chunks and partitions differ in a way that concerns the stream.
SELECT s.chronotable_id
FROM thermocline.synced_table s
WHERE s.status <> 'TERMINATED'
  AND (NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = s.table_oid)
       OR EXISTS (SELECT FROM thermocline._foreign_partitions(s.table_oid))
       OR EXISTS (SELECT FROM lakets._chunk_metadata m
                  WHERE m.chronotable_id = s.chronotable_id AND m.status <> 'dropped'
                    AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = m.chunk_oid)));
