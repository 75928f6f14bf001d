-- The stream in one row: whether a feed owns it, where slot and lake stand, and how much log the slot keeps. Also of a slot of ours that a
-- crash has left behind after the last table.
SELECT thermocline._feed_runs(),
       coalesce(s.slot_name::text, r.slot_name),
       CASE WHEN r.slot_name IS NULL THEN 'missing' WHEN s.slot_name IS NULL THEN 'left over' WHEN r.wal_status = 'lost' THEN 'lost'
            WHEN r.wal_status = 'unreserved' THEN 'about to be lost' ELSE 'ready' END,
       s.position::text,
       greatest(0, pg_catalog.pg_current_wal_lsn() - s.position)::bigint,
       round(greatest(0, extract(epoch FROM pg_catalog.clock_timestamp() - s.current_at)), 1)::float8,
       r.kept_bytes
FROM thermocline.stream s FULL JOIN lakets.feed_slot() r ON true;
