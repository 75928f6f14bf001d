-- The feed's replication slot and the log that it keeps, in one row; none when there is no slot. kept_bytes is the log from where the slot
-- holds it until now. pinned_bytes is the part of it that the feed has read and confirmed, and that a transaction keeps which was open
-- meanwhile; the rest is what the feed has yet to confirm. safe_bytes is what can still be written until max_slot_wal_keep_size loses the
-- slot: NULL without that limit. Of a slot that is lost all three are NULL. It is active only in the moments in which a feed reads from it.
-- A slot that a crash has left behind after the last table is shown, too.
CREATE OR REPLACE FUNCTION lakets.feed_slot() RETURNS TABLE (
    slot_name     text,
    plugin        text,
    active        boolean,
    wal_status    text,
    confirmed_lsn pg_lsn,
    kept_bytes    bigint,
    pinned_bytes  bigint,
    safe_bytes    bigint
)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT r.slot_name::text, r.plugin::text, r.active, r.wal_status, r.confirmed_flush_lsn,
           (pg_current_wal_lsn() - r.restart_lsn)::bigint, (r.confirmed_flush_lsn - r.restart_lsn)::bigint, r.safe_wal_size
    FROM pg_database d
    LEFT JOIN thermocline.stream s ON true
    JOIN pg_replication_slots r
        ON r.slot_name = s.slot_name
        OR s.slot_name IS NULL AND r.slot_name = 'thermocline_' || d.oid AND r.database = d.datname AND r.plugin = 'pgoutput'
    WHERE d.datname = current_database()
$$;

COMMENT ON FUNCTION lakets.feed_slot() IS
    'The feed''s replication slot: how much of the log it keeps, how much of that a transaction pins, and how much is left until it is lost.';
