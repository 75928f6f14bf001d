SELECT pg_catalog.format('%I.%I', r.schema_name, r.table_name), s.status, s.lake_table, s.committed_lsn::text,
       (pg_catalog.pg_current_wal_lsn() - s.committed_lsn)::bigint,
       CASE WHEN s.of_rollup IS NOT NULL THEN 1 ELSE
           (SELECT count(*) FROM lakets._chunk_metadata m WHERE m.chronotable_id = s.chronotable_id AND m.status <> 'dropped') END,
       (SELECT count(*) FROM thermocline.chunk_copy k WHERE k.chronotable_id = s.chronotable_id),
       s.last_write_time, s.reason
FROM thermocline.synced_table s JOIN thermocline.relation r ON r.id = s.chronotable_id
ORDER BY 1;
