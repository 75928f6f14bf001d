-- Resident chunks that are neither copied nor seen to be made, oldest first.
SELECT m.chunk_oid::bigint, m.chronotable_id, pg_catalog.format('%I.%I', n.nspname, c.relname), m.range_start, m.range_end
FROM lakets._chunk_metadata m
JOIN thermocline.synced_table s ON s.chronotable_id = m.chronotable_id AND s.status IN ('SNAPSHOTTING', 'STREAMING')
JOIN pg_catalog.pg_class c ON c.oid = m.chunk_oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = s.table_oid AND NOT i.inhdetachpending
WHERE m.status <> 'dropped' AND NOT EXISTS (SELECT FROM thermocline.chunk_copy k WHERE k.chunk_oid = m.chunk_oid)
ORDER BY m.range_start, m.chunk_oid;
