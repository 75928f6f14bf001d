-- The stream in one row: whether a feed owns it, where slot and lake stand, and how much log the slot keeps.
SELECT thermocline._feed_runs(),
       s.slot_name::text,
       CASE WHEN r.slot_name IS NULL THEN 'missing' WHEN r.wal_status = 'lost' THEN 'lost'
            WHEN r.wal_status = 'unreserved' THEN 'about to be lost' ELSE 'ready' END,
       s.position::text,
       greatest(0, pg_catalog.pg_current_wal_lsn() - s.position)::bigint,
       round(greatest(0, extract(epoch FROM pg_catalog.clock_timestamp() - s.current_at)), 1)::float8,
       (pg_catalog.pg_current_wal_lsn() - r.restart_lsn)::bigint
FROM thermocline.stream s LEFT JOIN pg_catalog.pg_replication_slots r ON r.slot_name = s.slot_name;
