-- The slot as it stands, and how far the log is on the disk. No row: there is no such slot.
SELECT s.confirmed_flush_lsn::text, s.restart_lsn::text, s.active_pid, s.wal_status, s.plugin,
       s.database = pg_catalog.current_database() AS here, pg_catalog.pg_current_wal_flush_lsn()::text
FROM pg_catalog.pg_replication_slots s
WHERE s.slot_name = %(slot)s;
