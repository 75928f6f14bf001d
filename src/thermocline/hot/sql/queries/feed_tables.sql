-- Every table that is synced, with what is needed to read and write it. The time column is what it is called now.
SELECT s.chronotable_id, s.table_oid::bigint, r.schema_name, r.table_name, a.attname, r.chunk_interval,
       s.lake_table, s.status, s.marker_lsn::text, s.lake_snapshot, s.joined_at
FROM thermocline.synced_table s JOIN lakets._chronotable_registry r ON r.id = s.chronotable_id
JOIN pg_partitioned_table p ON p.partrelid = s.table_oid
JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
WHERE s.status NOT IN ('TERMINATED', 'SKIPPED')
ORDER BY s.chronotable_id;
