-- Leaves a mark for a row that was written to the past: the moment and the keys of every RollUp while a transaction has few of
-- them, the hours that lakets._to_be_marked has collected once it has many. Marks carry the transaction's id, by which a
-- refresh knows which it has seen. Whoever writes needs no right on them. Which table it is follows from what fired it: on a
-- table that is not ours it does nothing.
CREATE OR REPLACE FUNCTION lakets._late_written() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET extra_float_digits = 1
AS $$
DECLARE
    c_exact  constant int := 1000;
    c_pieces constant int := 100;
    v_id     int;
    v_time   text;
    v_told   boolean;
    v_trap   boolean;
    v_row    jsonb;
    v_at     timestamptz;
    v_count  int;
    v_hour   timestamptz;
    v_hours  tstzmultirange;
    v_marked tstzmultirange;
BEGIN
    SELECT r.id, a.attname, EXISTS (SELECT FROM lakets._rollup_registry g WHERE g.source_chronotable_id = r.id AND g.tracked)
    INTO v_id, v_time, v_told
    FROM lakets._chronotable_registry r
    JOIN pg_partitioned_table p ON p.partrelid = r.table_oid
    JOIN pg_attribute a ON a.attrelid = r.table_oid AND a.attnum = p.partattrs[0]
    WHERE r.table_oid IN (SELECT pg_partition_ancestors(TG_RELID));
    IF NOT FOUND THEN
        RETURN NULL;  -- a chunk that has left its table
    END IF;
    -- A range that has left: its buckets are frozen, and have the row only once they are recomputed.
    v_trap   := EXISTS (SELECT FROM thermocline.dropped_range d WHERE d.chronotable_id = v_id AND d.trap_oid = TG_RELID);
    v_count  := coalesce(nullif(current_setting('thermocline.marks_' || v_id, true), ''), '0')::int + 1;
    v_marked := coalesce(nullif(current_setting('thermocline.marked_' || v_id, true), ''), '{}')::tstzmultirange;
    -- All hours that are collected, whichever row this is: a row that moves to another chunk is asked for once more than it comes here.
    v_hours  := v_marked + coalesce(nullif(current_setting('thermocline.hours_' || v_id, true), ''), '{}')::tstzmultirange;
    FOREACH v_row IN ARRAY CASE TG_OP WHEN 'INSERT' THEN ARRAY[to_jsonb(NEW)] WHEN 'DELETE' THEN ARRAY[to_jsonb(OLD)]
                                      ELSE ARRAY[to_jsonb(OLD), to_jsonb(NEW)] END
    LOOP
        v_at := (v_row ->> v_time)::timestamptz;
        IF v_trap THEN
            PERFORM thermocline._note_late_hour(v_id, v_at);
        END IF;
        IF v_told AND v_count <= c_exact THEN
            INSERT INTO lakets._rollup_invalidation_log
                (rollup_id, bucket_start, chronotable_id, first_time, last_time, keys, told)
            WITH known AS (
                SELECT g.id,
                       CASE WHEN g.bucket_expression ~ '^lakets\.time_bucket\(''[^'']+''::interval, [^,()]+\)$'
                            THEN lakets.time_bucket(g.bucket_interval, v_at) END AS bucket,  -- for people, where it is told cheaply
                       (SELECT coalesce(jsonb_object_agg(k, v_row -> k), '{}') FROM unnest(g.key_columns) k) AS keys
                FROM lakets._rollup_registry g WHERE g.source_chronotable_id = v_id AND g.tracked
            )
            SELECT id, bucket, v_id, v_at, v_at, keys, '{}'::int[] FROM known
            UNION ALL
            -- For a RollUp that is being made and cannot be seen from here. Meanwhile all others may have been dropped.
            SELECT NULL, NULL, v_id, v_at, v_at, NULL, (SELECT coalesce(array_agg(id), '{}') FROM known);
        ELSIF NOT v_at <@ v_hours THEN
            v_hour  := date_bin('1 hour', v_at, '2000-01-01');
            v_hours := v_hours + tstzmultirange(tstzrange(v_hour, v_hour + interval '1 hour'));
        END IF;
    END LOOP;
    IF v_hours <> v_marked THEN
        IF (SELECT count(*) FROM unnest(v_hours)) > c_pieces THEN
            v_hours := tstzmultirange(range_merge(v_hours));
        END IF;
        -- By the hour, or in a hundred pieces where that is less.
        PERFORM thermocline._mark_range(v_id, g.t, least(g.t + s.step, upper(r)), 'late_write')
        FROM unnest(v_hours - v_marked) r,
             LATERAL (SELECT greatest(interval '1 hour', (upper(r) - lower(r)) / c_pieces) AS step) s,
             generate_series(lower(r), upper(r) - interval '1 microsecond', s.step) g (t);
        PERFORM set_config('thermocline.marked_' || v_id, v_hours::text, true);
    END IF;
    PERFORM set_config('thermocline.marks_' || v_id, v_count::text, true);
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION lakets._late_written() IS 'Trigger of every ChronoTable: marks what is written to the past.';
