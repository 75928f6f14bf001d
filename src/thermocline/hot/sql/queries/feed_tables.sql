-- Every table that is synced, with what is needed to read and write it.
SELECT s.chronotable_id, s.table_oid::bigint, r.schema_name, r.table_name, r.time_column, r.chunk_interval,
       s.lake_table, s.status, s.marker_lsn::text, s.lake_snapshot, s.streams_from::text
FROM thermocline.synced_table s JOIN lakets._chronotable_registry r ON r.id = s.chronotable_id
WHERE s.status NOT IN ('TERMINATED', 'SKIPPED')
ORDER BY s.chronotable_id;
