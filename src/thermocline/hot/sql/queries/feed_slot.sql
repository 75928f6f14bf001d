-- The slot as it stands, how far the log is on the disk, and how far it is written. No row: there is no such slot.
SELECT s.confirmed_flush_lsn::text, s.restart_lsn::text, s.active_pid, s.wal_status, s.plugin,
       s.database = pg_catalog.current_database() AS here, pg_catalog.pg_current_wal_flush_lsn()::text,
       pg_catalog.pg_current_wal_insert_lsn()::text, pg_catalog.clock_timestamp()
FROM pg_catalog.pg_replication_slots s
WHERE s.slot_name = %(slot)s;
