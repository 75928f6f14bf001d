-- What waits for the next batch: where the slot stands, how far the log is on the disk, and whether somebody wants more
-- than is recorded. No row: there is no stream, or its slot is gone.
SELECT s.confirmed_flush_lsn::text, pg_catalog.pg_current_wal_flush_lsn()::text, t.wanted > t.position
FROM thermocline.stream t
JOIN pg_catalog.pg_replication_slots s ON s.slot_name = t.slot_name AND s.database = pg_catalog.current_database();
