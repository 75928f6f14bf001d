-- Resident chunks that are neither copied nor seen to be made, oldest first. A RollUp is one chunk of all times.
SELECT m.chunk_oid::bigint, m.chronotable_id, pg_catalog.format('%I.%I', n.nspname, c.relname), m.range_start, m.range_end
FROM (SELECT chunk_oid, chronotable_id, range_start, range_end FROM lakets._chunk_metadata WHERE status <> 'dropped'
      UNION ALL
      SELECT r.table_oid, r.id, '0002-01-01 00:00:00+00', '9998-01-01 00:00:00+00' FROM thermocline.relation r WHERE r.id < 0) m
JOIN thermocline.synced_table s ON s.chronotable_id = m.chronotable_id AND s.status IN ('SNAPSHOTTING', 'STREAMING')
JOIN pg_catalog.pg_class c ON c.oid = m.chunk_oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE (c.oid = s.table_oid
       OR EXISTS (SELECT FROM pg_catalog.pg_inherits i
                  WHERE i.inhrelid = c.oid AND i.inhparent = s.table_oid AND NOT i.inhdetachpending))
  AND NOT EXISTS (SELECT FROM thermocline.chunk_copy k WHERE k.chunk_oid = m.chunk_oid)
ORDER BY m.range_start, m.chunk_oid;
