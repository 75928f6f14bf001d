-- What waits for the next batch: where the slot stands, how far the log is on the disk, whether somebody wants more than is recorded, and
-- the tables with the seconds between two commits of each, and those that the lake has not taken. No row: there is no stream, or its slot is gone.
SELECT s.confirmed_flush_lsn::text, pg_catalog.pg_current_wal_flush_lsn()::text, t.wanted > t.position,
       (SELECT coalesce(pg_catalog.jsonb_object_agg(y.chronotable_id, extract(epoch FROM y.commit_interval)), '{}')
        FROM thermocline.synced_table y JOIN thermocline.relation r ON r.id = y.chronotable_id AND r.table_oid = y.table_oid
        WHERE y.status NOT IN ('TERMINATED', 'SKIPPED')),
       ARRAY(SELECT y.chronotable_id FROM thermocline.synced_table y
             WHERE y.status NOT IN ('TERMINATED', 'SKIPPED') AND y.reason IS NOT NULL)
FROM thermocline.stream t
JOIN pg_catalog.pg_replication_slots s ON s.slot_name = t.slot_name AND s.database = pg_catalog.current_database();
