-- The stream in one row: whether a feed owns it, where slot and lake stand, and how much log the slot keeps. Also of a slot of ours that a
-- crash has left behind after the last table.
SELECT thermocline._feed_runs(),
       coalesce(s.slot_name, r.slot_name)::text,
       CASE WHEN r.slot_name IS NULL THEN 'missing' WHEN s.slot_name IS NULL THEN 'left over' WHEN r.wal_status = 'lost' THEN 'lost'
            WHEN r.wal_status = 'unreserved' THEN 'about to be lost' ELSE 'ready' END,
       s.position::text,
       greatest(0, pg_catalog.pg_current_wal_lsn() - s.position)::bigint,
       round(greatest(0, extract(epoch FROM pg_catalog.clock_timestamp() - s.current_at)), 1)::float8,
       (pg_catalog.pg_current_wal_lsn() - r.restart_lsn)::bigint
FROM pg_catalog.pg_database d
LEFT JOIN thermocline.stream s ON true
LEFT JOIN pg_catalog.pg_replication_slots r
    ON r.slot_name = s.slot_name
    OR s.slot_name IS NULL AND r.slot_name = 'thermocline_' || d.oid AND r.database = d.datname AND r.plugin = 'pgoutput'
WHERE d.datname = pg_catalog.current_database() AND (s.slot_name IS NOT NULL OR r.slot_name IS NOT NULL);
