-- The moment at which a range is hot again: its trap goes, the loaded table takes its place, and the registry, the copies, the stream,
-- the RollUps and the audit say so, all in one transaction. What was loaded is what the lake has up to p_settled, or all of it where there
-- is no such position. Refused when late rows have come since: its trap has them, or they were let go and the position has moved, or a
-- trap was lost that may have had some.
CREATE OR REPLACE FUNCTION thermocline._attach_staged(
    p_chronotable_id int,
    p_range_start    timestamptz,
    p_staged         oid,
    p_settled        pg_lsn,
    p_traps_lost     int,
    p_position       pg_lsn,
    p_rows           bigint,
    p_evidence       jsonb
) RETURNS pg_lsn
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    v_table    lakets._chronotable_registry;
    v_asked    thermocline.rehydration;
    v_left     thermocline.dropped_range;
    v_name     text := p_staged::regclass::text;
    v_type     text;
    v_position pg_lsn;
BEGIN
    SELECT * INTO STRICT v_table FROM lakets._chronotable_registry r WHERE r.id = p_chronotable_id FOR UPDATE;
    SELECT * INTO v_asked FROM thermocline.rehydration r
    WHERE r.chronotable_id = p_chronotable_id AND r.range_start = p_range_start FOR UPDATE;
    SELECT * INTO v_left FROM thermocline.dropped_range d
    WHERE d.chronotable_id = p_chronotable_id AND d.range_start = p_range_start FOR UPDATE;
    IF v_asked.staged_oid IS DISTINCT FROM p_staged OR v_left.range_end IS DISTINCT FROM v_asked.range_end
       OR v_asked.kept_until <= clock_timestamp() THEN
        RAISE EXCEPTION '% is not wanted back any more', v_name
            USING DETAIL = 'not_wanted', HINT = 'Ask for it again: `thermocline rehydrate`.';
    ELSIF NOT EXISTS (SELECT FROM thermocline.synced_table s WHERE s.chronotable_id = p_chronotable_id AND s.status = 'STREAMING'
                                                               AND s.mode = 'direct' AND s.streams_from <= p_position) THEN
        RAISE EXCEPTION 'the feed of %.% is not what it was when % was loaded', v_table.schema_name, v_table.table_name, v_name
            USING DETAIL = 'feed_not_streaming', HINT = '`thermocline feed status` says why; then try again.';
    END IF;
    PERFORM thermocline._lock(v_table.table_oid, 'ACCESS EXCLUSIVE');
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = v_left.trap_oid) THEN
        RAISE EXCEPTION 'nothing keeps late rows out of the range from % to %', p_range_start, v_left.range_end
            USING DETAIL = 'no_trap', HINT = 'Try again: a trap is set by `thermocline maintain`.';
    END IF;
    PERFORM thermocline._lock(v_left.trap_oid, 'ACCESS EXCLUSIVE');
    IF v_left.settled_position IS DISTINCT FROM p_settled OR v_left.traps_lost <> p_traps_lost OR thermocline._trap_has_rows(v_left.trap_oid) THEN
        RAISE EXCEPTION 'late rows have come for the range from % to % or for ranges beside it while it was loaded', p_range_start, v_left.range_end
            USING DETAIL = 'late_rows', HINT = 'They are settled first: `thermocline late`; then try again.';
    END IF;
    IF EXISTS (SELECT FROM pg_constraint WHERE confrelid = v_left.trap_oid AND contype = 'f') THEN
        EXECUTE format('ALTER TABLE %s DETACH PARTITION %s', v_table.table_oid::regclass, v_left.trap_oid::regclass);
    END IF;
    EXECUTE format('DROP TABLE %s', v_left.trap_oid::regclass);
    UPDATE thermocline.dropped_range d SET trap_oid = NULL WHERE d.trap_oid = v_left.trap_oid;
    DELETE FROM thermocline.dropped_range d WHERE d.chronotable_id = p_chronotable_id AND d.range_start = p_range_start;
    SELECT format_type(a.atttypid, NULL) INTO STRICT v_type
    FROM pg_attribute a WHERE a.attrelid = v_table.table_oid AND a.attname = v_table.time_column;
    PERFORM thermocline._give_way(format(
        'ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)', v_table.table_oid::regclass, v_name,
        lakets._bound_of(p_range_start, v_type), lakets._bound_of(v_left.range_end, v_type)));
    PERFORM thermocline._same_indexes(p_chronotable_id, p_staged);
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT thermocline_range', v_name);
    PERFORM thermocline._register_chunk(p_chronotable_id, p_staged, format('%I.%I', n.nspname, c.relname), p_range_start, v_left.range_end)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = p_staged;
    UPDATE lakets._chunk_metadata m SET kept_until = v_asked.kept_until WHERE m.chunk_oid = p_staged AND m.status <> 'dropped';
    v_position := thermocline._tell(jsonb_build_object(
        'event', 'chunk_rehydrated', 'chronotable', p_chronotable_id, 'chunk', p_staged::bigint,
        'range_start', p_range_start, 'range_end', v_left.range_end));
    INSERT INTO thermocline.chunk_copy (chunk_oid, chronotable_id, how, position, row_count, relfilenode, attached)
    SELECT p_staged, p_chronotable_id, 'rehydrated', p_position, p_rows, c.relfilenode, i.xmin::text::bigint
    FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid WHERE c.oid = p_staged;
    PERFORM thermocline._mark_range(p_chronotable_id, p_range_start, v_left.range_end, 'chunk_changed');
    INSERT INTO thermocline.audit (action, object, chronotable_id, range_start, range_end, row_count, bytes, reason, evidence)
    VALUES ('rehydrate', v_name, p_chronotable_id, p_range_start, v_left.range_end, p_rows, pg_total_relation_size(p_staged),
            format('asked for by %s', v_asked.asked_by),
            p_evidence || jsonb_build_object('position', p_position, 'attached_at', v_position, 'kept_until', v_asked.kept_until));
    DELETE FROM thermocline.rehydration r WHERE r.chronotable_id = p_chronotable_id AND r.range_start = p_range_start;
    PERFORM thermocline._set_traps(p_chronotable_id, false);
    RETURN v_position;
END
$$;

COMMENT ON FUNCTION thermocline._attach_staged(int, timestamptz, oid, pg_lsn, int, pg_lsn, bigint, jsonb) IS
    'Puts a loaded and proven range in the place of its trap; returns the position at which it is hot again.';
