-- Progress says why a table is set aside or waits.
CREATE OR REPLACE VIEW wal2delta.tables AS
SELECT coalesce(s.shadow_oid, s.table_oid) AS table_oid,
       CASE s.status WHEN 'JOINING' THEN 'SNAPSHOTTING' ELSE s.status END AS status,
       s.committed_lsn,
       s.last_write_time,
       s.reason
FROM thermocline.synced_table s;
