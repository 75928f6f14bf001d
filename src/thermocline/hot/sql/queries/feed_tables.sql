-- Every table and RollUp that is synced, with what is needed to read and write it, last what streams: the table itself, or its mirror. The time
-- column is what it is called now.
SELECT s.chronotable_id, s.table_oid::bigint, r.schema_name, r.table_name, r.time_column, r.span,
       s.lake_table, s.status, s.marker_lsn::text, s.committed_lsn::text, s.lake_snapshot, s.joined_at,
       s.streams_from::text, c.oid::bigint
FROM thermocline.synced_table s JOIN thermocline.relation r ON r.id = s.chronotable_id AND r.table_oid = s.table_oid
JOIN pg_catalog.pg_class c ON c.oid = coalesce(s.shadow_oid, s.table_oid)
WHERE s.status NOT IN ('TERMINATED', 'SKIPPED')
ORDER BY s.chronotable_id;
