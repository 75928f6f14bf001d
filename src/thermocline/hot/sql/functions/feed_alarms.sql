-- What is wrong with the feed as a whole, before it costs anything: no row when all is well. The limit for the log that the slot keeps is
-- the setting lakets.wal_alarm_mb, 8192 unless it is set for the database or the role. If a transaction keeps it, of whichever database and
-- prepared or not, the next step names it; since when it has been open is told to its own role and to members of pg_read_all_stats.
CREATE OR REPLACE FUNCTION lakets.feed_alarms() RETURNS TABLE (alarm text, message text, next_step text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c_limit constant numeric := coalesce(nullif(current_setting('lakets.wal_alarm_mb', true), ''), '8192')::numeric * 1024 * 1024;
    v_slot   record;
    v_oldest record;
BEGIN
    SELECT s.slot_name, r.slot_name IS NOT NULL AS there, r.wal_status, r.kept_bytes, r.safe_bytes,
           r.pinned_bytes > r.kept_bytes / 2 AS pinned,
           (SELECT setting::numeric * 1024 * 1024 FROM pg_settings WHERE name = 'max_slot_wal_keep_size') AS most
    INTO v_slot
    FROM (SELECT) one LEFT JOIN thermocline.stream s ON true LEFT JOIN lakets.feed_slot() r ON r.slot_name = s.slot_name;
    -- By its id: the log is kept from the first write on, not from BEGIN. All databases share ids and log.
    SELECT t.* INTO v_oldest
    FROM (SELECT a.backend_xid, a.datname, a.xact_start, a.pid, NULL FROM pg_stat_activity a
          UNION ALL
          SELECT p.transaction, p.database, p.prepared, NULL, p.gid FROM pg_prepared_xacts p) t (xid, database, since, pid, gid)
    WHERE t.xid IS NOT NULL ORDER BY age(t.xid) DESC LIMIT 1;

    RETURN QUERY SELECT r.alarm, r.message, r.next_step FROM (VALUES
        ('slot_missing', v_slot.slot_name IS NOT NULL AND NOT v_slot.there, format('the replication slot %s is gone', v_slot.slot_name),
         '`thermocline feed resync --yes` makes a new one and copies every resident chunk.'),
        ('slot_lost', v_slot.wal_status = 'lost', format('the replication slot %s was invalidated', v_slot.slot_name),
         '`thermocline feed resync --yes` makes a new one and copies every resident chunk.'),
        ('slot_in_danger', v_slot.wal_status = 'unreserved' OR v_slot.safe_bytes < v_slot.most / 4,
         format('the replication slot %s is lost after %s more of the log', v_slot.slot_name,
                pg_size_pretty(greatest(v_slot.safe_bytes, 0))),
         'Let the feed catch up, or raise max_slot_wal_keep_size if the disk has room.'),
        ('log_kept', v_slot.kept_bytes > c_limit,
         format('the replication slot %s keeps %s of the log', v_slot.slot_name, pg_size_pretty(v_slot.kept_bytes)),
         CASE WHEN NOT thermocline._feed_runs() THEN 'No feed is running: `thermocline feed`.'
              WHEN v_slot.pinned AND v_oldest.gid IS NOT NULL
              THEN format('A transaction was prepared at %1$s and has not ended: COMMIT PREPARED %3$L or ROLLBACK PREPARED %3$L, in the database %2$I.',
                          v_oldest.since, v_oldest.database, v_oldest.gid)
              WHEN v_slot.pinned AND v_oldest.pid IS NOT NULL
              THEN format('A transaction in the database %I %s: end it, or SELECT pg_terminate_backend(%s).', v_oldest.database,
                          coalesce('has been open since ' || v_oldest.since, 'is open'), v_oldest.pid)
              WHEN v_slot.pinned THEN 'The transaction that kept it has ended: PostgreSQL lets it go when the feed has read a little more.'
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
