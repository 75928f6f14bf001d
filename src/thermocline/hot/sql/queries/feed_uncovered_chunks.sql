-- Resident chunks that are neither copied nor seen to be made, or have been rewritten since then, oldest first. A RollUp is one chunk of all times.
SELECT m.part_oid::bigint, m.id, pg_catalog.format('%I.%I', n.nspname, c.relname), m.range_start, m.range_end
FROM thermocline.resident_part m
JOIN thermocline.synced_table s ON s.chronotable_id = m.id AND s.status IN ('SNAPSHOTTING', 'STREAMING')
JOIN pg_catalog.pg_class c ON c.oid = m.part_oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE (c.oid = s.table_oid
       OR EXISTS (SELECT FROM pg_catalog.pg_inherits i
                  WHERE i.inhrelid = c.oid AND i.inhparent = s.table_oid AND NOT i.inhdetachpending))
  AND NOT EXISTS (SELECT FROM thermocline.chunk_copy k WHERE k.chunk_oid = m.part_oid AND k.relfilenode = c.relfilenode)
ORDER BY m.range_start, m.part_oid;
