-- Leaves a mark for a row that was written to the past: the moment and the keys of every RollUp while a transaction has few of
-- them, the hour once it has many. What it has marked by the hour it remembers in a setting of the transaction, where the
-- triggers' WHEN sees it; a rollback to a savepoint takes back both. Marks carry the transaction's id, by which a refresh
-- knows which it has seen. Whoever writes needs no right on them. Which table it is follows from what fired it: on a table
-- that is not ours it does nothing.
CREATE OR REPLACE FUNCTION lakets._late_written() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    c_exact  constant int := 1000;
    c_pieces constant int := 100;
    v_id     int;
    v_time   text;
    v_keys   text[];
    v_names  text[];
    v_row    jsonb;
    v_at     timestamptz;
    v_count  int;
    v_hour   tstzrange;
    v_marked tstzmultirange;
BEGIN
    SELECT r.id, a.attname INTO v_id, v_time
    FROM lakets._chronotable_registry r
    JOIN pg_partitioned_table p ON p.partrelid = r.table_oid
    JOIN pg_attribute a ON a.attrelid = r.table_oid AND a.attnum = p.partattrs[0]
    WHERE r.table_oid = pg_partition_root(TG_RELID);
    IF NOT FOUND THEN
        RETURN NULL;  -- a chunk that has left its table
    END IF;
    v_count  := coalesce(nullif(current_setting('thermocline.marks_' || v_id, true), ''), '0')::int;
    v_marked := coalesce(nullif(current_setting('thermocline.marked_' || v_id, true), ''), '{}')::tstzmultirange;
    SELECT array_agg(DISTINCT k.key) FILTER (WHERE k.key IS NOT NULL), array_agg(DISTINCT g.name)
    INTO v_keys, v_names
    FROM lakets._rollup_registry g LEFT JOIN unnest(g.key_columns) k (key) ON true
    WHERE g.source_chronotable_id = v_id AND g.tracked;
    FOREACH v_row IN ARRAY CASE TG_OP WHEN 'INSERT' THEN ARRAY[to_jsonb(NEW)] WHEN 'DELETE' THEN ARRAY[to_jsonb(OLD)]
                                      ELSE ARRAY[to_jsonb(OLD), to_jsonb(NEW)] END
    LOOP
        v_at := (v_row ->> v_time)::timestamptz;
        CONTINUE WHEN v_at <@ v_marked;
        IF v_names IS NOT NULL AND v_count < c_exact THEN
            v_count := v_count + 1;
            INSERT INTO lakets._rollup_invalidation_log
                (rollup_id, bucket_start, chronotable_id, first_time, last_time, keys, told)
            WITH known AS (
                SELECT g.id, lakets.time_bucket(g.bucket_interval, v_at) AS bucket,
                       (SELECT coalesce(jsonb_object_agg(k, v_row -> k), '{}') FROM unnest(g.key_columns) k) AS keys
                FROM lakets._rollup_registry g WHERE g.source_chronotable_id = v_id AND g.tracked
            )
            SELECT id, bucket, v_id, v_at, v_at, keys, '{}'::int[] FROM known
            UNION ALL
            -- For a RollUp that is being made and cannot be seen from here.
            SELECT NULL, NULL, v_id, v_at, v_at, NULL, (SELECT array_agg(id) FROM known);
        ELSE
            v_hour   := tstzrange(date_bin('1 hour', v_at, '2000-01-01'), date_bin('1 hour', v_at, '2000-01-01') + interval '1 hour');
            v_marked := v_marked + tstzmultirange(v_hour);
            IF (SELECT count(*) FROM unnest(v_marked)) > c_pieces THEN
                v_hour   := range_merge(v_marked);
                v_marked := tstzmultirange(v_hour);
            END IF;
            PERFORM thermocline._mark_range(v_id, lower(v_hour), upper(v_hour), 'late_write');
            PERFORM set_config('thermocline.marked_' || v_id, v_marked::text, true);
        END IF;
    END LOOP;
    PERFORM set_config('thermocline.marks_' || v_id, v_count::text, true);
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION lakets._late_written() IS 'Trigger of every ChronoTable: marks what is written to the past.';
