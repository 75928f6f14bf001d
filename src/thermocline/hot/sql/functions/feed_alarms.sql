-- What is wrong with the feed as a whole, before it costs anything: no row when all is well. The limit for the log that the slot keeps is
-- the setting lakets.wal_alarm_mb, 8192 unless it is set for the database or the role.
CREATE OR REPLACE FUNCTION lakets.feed_alarms() RETURNS TABLE (alarm text, message text, next_step text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c_limit constant numeric := coalesce(nullif(current_setting('lakets.wal_alarm_mb', true), ''), '8192')::numeric * 1024 * 1024;
    v_slot   record;
    v_oldest record;
BEGIN
    SELECT s.slot_name, r.slot_name IS NOT NULL AS there, r.wal_status, r.safe_wal_size,
           pg_current_wal_lsn() - r.restart_lsn AS kept, r.confirmed_flush_lsn - r.restart_lsn AS pinned,
           (SELECT setting::numeric * 1024 * 1024 FROM pg_settings WHERE name = 'max_slot_wal_keep_size') AS most
    INTO v_slot
    FROM (SELECT) one LEFT JOIN thermocline.stream s ON true LEFT JOIN pg_replication_slots r ON r.slot_name = s.slot_name;
    SELECT a.pid, a.xact_start INTO v_oldest FROM pg_stat_activity a
    WHERE a.backend_xid IS NOT NULL AND a.datname = current_database() ORDER BY a.xact_start LIMIT 1;

    RETURN QUERY SELECT r.alarm, r.message, r.next_step FROM (VALUES
        ('slot_missing', v_slot.slot_name IS NOT NULL AND NOT v_slot.there, format('the replication slot %s is gone', v_slot.slot_name),
         '`thermocline feed resync --yes` makes a new one and copies every resident chunk.'),
        ('slot_lost', v_slot.wal_status = 'lost', format('the replication slot %s was invalidated', v_slot.slot_name),
         '`thermocline feed resync --yes` makes a new one and copies every resident chunk.'),
        ('slot_in_danger', v_slot.wal_status = 'unreserved' OR v_slot.safe_wal_size < v_slot.most / 4,
         format('the replication slot %s is lost after %s more of the log', v_slot.slot_name,
                pg_size_pretty(greatest(v_slot.safe_wal_size, 0))),
         'Let the feed catch up, or raise max_slot_wal_keep_size if the disk has room.'),
        ('log_kept', v_slot.kept > c_limit,
         format('the replication slot %s keeps %s of the log', v_slot.slot_name, pg_size_pretty(v_slot.kept)),
         CASE WHEN NOT thermocline._feed_runs() THEN 'No feed is running: `thermocline feed`.'
              WHEN v_slot.pinned > v_slot.kept / 2 AND v_oldest.pid IS NOT NULL
              THEN format('A transaction has been open since %s: end it, or SELECT pg_terminate_backend(%s).',
                          v_oldest.xact_start, v_oldest.pid)
              ELSE 'The feed is behind: `thermocline feed status` shows how far.' END),
        ('feed_stopped', NOT thermocline._feed_runs()
             AND EXISTS (SELECT FROM thermocline.synced_table y WHERE y.status <> 'TERMINATED'),
         'tables are synced, and no feed is running: the log is kept until one does',
         '`thermocline feed` runs it; `disable_sync` of every table ends the need for it.'),
        ('table_set_aside', EXISTS (SELECT FROM thermocline.synced_table y WHERE y.status = 'SKIPPED'),
         format('set aside: %s', (SELECT string_agg(y.table_oid::regclass::text, ', ' ORDER BY y.chronotable_id)
                                  FROM thermocline.synced_table y WHERE y.status = 'SKIPPED')),
         '`thermocline feed status` says why; `thermocline feed resync TABLE --yes` lets it join again.'),
        ('lake_refuses', EXISTS (SELECT FROM thermocline.synced_table y WHERE y.status NOT IN ('SKIPPED', 'TERMINATED') AND y.reason IS NOT NULL),
         format('the lake does not take what these have: %s',
                (SELECT string_agg(y.table_oid::regclass::text, ', ' ORDER BY y.chronotable_id)
                 FROM thermocline.synced_table y WHERE y.status NOT IN ('SKIPPED', 'TERMINATED') AND y.reason IS NOT NULL)),
         '`thermocline feed status` says why. A feed that runs tries again by itself; until then the log is kept.')
    ) AS r (alarm, holds, message, next_step) WHERE r.holds;
END
$$;

COMMENT ON FUNCTION lakets.feed_alarms() IS
    'What is wrong with the feed: a slot that is gone or in danger, log that it keeps, no feed, tables set aside, a lake that does not take what they have. Each with a next step.';
