-- Lets the late rows of a trap go, once they were compared with what the lake has of its range above the last time. What was seen then is
-- checked again under a lock that keeps writers off, in a later statement and so with a younger snapshot; then they go by TRUNCATE, which
-- does not stream, and from now on the range is read from the lake up to the position that was compared. Refuses with an exception,
-- whose DETAIL is the reason's code.
CREATE OR REPLACE FUNCTION thermocline._settle_trap(
    p_trap     oid,
    p_position pg_lsn,
    p_evidence jsonb,
    p_reason   text
) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_trap     thermocline.trap;
    v_table    lakets._chronotable_registry;
    v_now      record;
    v_location text;
    v_bytes    bigint;
    v_times    tstzmultirange;
    v_against  record;
    v_stop     thermocline.work_stop;
BEGIN
    PERFORM thermocline._require_read_committed(format('settle late rows of %s', p_trap::regclass));
    SELECT * INTO v_trap FROM thermocline.trap t WHERE t.trap_oid = p_trap;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no trap %', p_trap USING DETAIL = 'gone', HINT = 'Nothing to do if that was meant.';
    END IF;
    SELECT s.* INTO v_stop FROM thermocline.work_stop s WHERE s.what IN ('everything', 'destructive', 'settle') ORDER BY s.at LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'late rows of % stay: % is paused by %', p_trap::regclass, v_stop.what, v_stop.who
            USING DETAIL = 'gate.paused', HINT = format('`thermocline work pause %s --off` ends the pause.', v_stop.what);
    END IF;
    SELECT * INTO STRICT v_table FROM lakets._chronotable_registry WHERE id = v_trap.chronotable_id FOR UPDATE;
    PERFORM thermocline._lock(p_trap, 'SHARE');
    SELECT * INTO v_now FROM thermocline._chunk_evidence(p_trap);
    SELECT i.metadata_location INTO v_location FROM thermocline_lake.iceberg_tables i
    WHERE i.catalog_name = 'lake' AND i.table_namespace || '.' || i.table_name = p_evidence ->> 'lake_table';
    SELECT r.code, r.message, r.next_step INTO v_against FROM (VALUES
        (1, 'feed_not_streaming',
         EXISTS (SELECT FROM thermocline.synced_table s
                 WHERE s.chronotable_id = v_table.id AND s.status = 'STREAMING' AND s.mode = 'direct'
                   AND s.lake_table = p_evidence ->> 'lake_table' AND s.committed_lsn > p_position),
         'its table does not stream any more', '`thermocline feed status` says why.'),
        (2, 'other_history',
         EXISTS (SELECT FROM thermocline.stream t, thermocline._server_history() h
                 WHERE (t.system_identifier, t.timeline) = (h.system_identifier, h.timeline)
                   AND (t.system_identifier, t.timeline, t.slot_name::text, extract(epoch FROM t.created_at))
                       = ((p_evidence ->> 'system_identifier')::bigint, (p_evidence ->> 'timeline')::int,
                          p_evidence ->> 'slot_name', (p_evidence ->> 'slot_made')::numeric)
                   AND t.epoch >= (p_evidence ->> 'epoch')::bigint
                   AND EXISTS (SELECT FROM pg_replication_slots l
                               WHERE l.slot_name = t.slot_name AND l.database = current_database() AND l.wal_status <> 'lost')),
         'the feed is of another history than when they were compared', 'It is tried again.'),
        (3, 'changing',
         (v_now.row_count, v_now.fingerprint, v_now.relfilenode, v_now.columns)
             = ((p_evidence ->> 'row_count')::bigint, (p_evidence ->> 'fingerprint')::numeric,
                (p_evidence ->> 'relfilenode')::oid, p_evidence -> 'columns')
         AND v_now.parent = v_table.table_oid
         AND NOT EXISTS (SELECT FROM thermocline.dropped_range d
                         WHERE d.trap_oid = p_trap AND (d.settled_position IS NULL OR d.settled_position > p_position)),
         'it was written to since they were compared', 'It is tried again.'),
        (4, 'lake_changed',
         v_location IS NULL OR v_location = p_evidence ->> 'metadata'
             OR coalesce(substring(v_location FROM '/([0-9]+)-[^/]*$')::bigint
                         > substring(p_evidence ->> 'metadata' FROM '/([0-9]+)-[^/]*$')::bigint, false),
         'the lake''s table is another one than was looked at', 'It is tried again.')
    ) AS r (n, code, holds, message, next_step) WHERE r.holds IS NOT TRUE ORDER BY r.n LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'late rows of % stay: %', p_trap::regclass, v_against.message
            USING DETAIL = v_against.code, HINT = v_against.next_step;
    END IF;
    v_bytes := pg_total_relation_size(p_trap);
    PERFORM thermocline._lock(p_trap, 'ACCESS EXCLUSIVE');
    EXECUTE format('SELECT coalesce(range_agg(tstzrange(h.t, h.t + interval ''1 hour'')), ''{}'') FROM (SELECT DISTINCT'
                   ' date_bin(''1 hour'', %I%s, ''2000-01-01 00:00+00'') AS t FROM ONLY %s) h', v_table.time_column,
                   CASE WHEN (SELECT a.atttypid FROM pg_attribute a
                              WHERE a.attrelid = p_trap AND a.attname = v_table.time_column) = 'timestamptz'::regtype
                        THEN '' ELSE '::timestamp AT TIME ZONE ''UTC''' END, p_trap::regclass) INTO v_times;
    IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = p_trap AND tgname = 'trg_thermocline_keep') THEN
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER trg_thermocline_keep', p_trap::regclass);
        EXECUTE format('TRUNCATE ONLY %s', p_trap::regclass);
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER trg_thermocline_keep', p_trap::regclass);
    ELSE
        EXECUTE format('TRUNCATE ONLY %s', p_trap::regclass);
    END IF;
    UPDATE thermocline.dropped_range
    SET settled_position = p_position, receipt_position = CASE WHEN receipt_position IS NOT NULL THEN p_position END
    WHERE trap_oid = p_trap;
    -- One note for all that its writers have left, and for what came too soon to leave any.
    DELETE FROM thermocline.late_time l
    WHERE l.chronotable_id = v_table.id AND tstzrange(l.first_time, l.last_time, '[]') <@ v_times;
    PERFORM thermocline._note_late(v_table.id, lower(t), upper(t) - interval '1 microsecond') FROM unnest(v_times) t;
    INSERT INTO thermocline.audit (action, object, chronotable_id, range_start, range_end, row_count, bytes, reason, evidence)
    SELECT 'settle_late_rows', p_trap::regclass::text, v_table.id, v_trap.range_start, v_trap.range_end, v_now.row_count, v_bytes,
           p_reason, p_evidence || jsonb_build_object('position', p_position);
    RETURN v_bytes;
END
$$;

COMMENT ON FUNCTION thermocline._settle_trap(oid, pg_lsn, jsonb, text) IS
    'Lets the late rows of a trap go if they are what was compared with the lake; returns the bytes that were freed. An exception with '
    'the reason otherwise.';
