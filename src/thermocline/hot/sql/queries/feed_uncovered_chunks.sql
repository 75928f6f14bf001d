-- Chunks of synced tables that are to be copied, oldest first. One that is not logged would have to be copied again and again.
SELECT u.part_oid::bigint, u.id, pg_catalog.format('%I.%I', n.nspname, c.relname), u.range_start, u.range_end
FROM thermocline.uncovered_part u
JOIN thermocline.synced_table s ON s.chronotable_id = u.id AND s.status IN ('SNAPSHOTTING', 'STREAMING')
JOIN pg_catalog.pg_class c ON c.oid = u.part_oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE u.relpersistence = 'p'
ORDER BY u.range_start, u.part_oid;
