-- Drops a ChronoTable with its chunks and everything that Thermocline keeps about it. What is in the lake stays there. It is
-- not asked whether the lake has all of it: whoever drops a table wants it gone; the audit says what it was.
CREATE OR REPLACE FUNCTION lakets.drop_chronotable(
    p_table_name  text,
    p_schema_name text DEFAULT 'public'
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_table   lakets._chronotable_registry;
    v_synced  thermocline.synced_table;
    v_chunks  int;
    v_rows    bigint;
    v_bytes   bigint;
    v_apart   oid;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('thermocline publication', 0));  -- as enable_sync does, before any row
    SELECT * INTO v_table FROM lakets._chronotable_registry
    WHERE id = lakets._chronotable_id(p_table_name, p_schema_name) FOR UPDATE;
    SELECT * INTO v_synced FROM thermocline.synced_table WHERE chronotable_id = v_table.id;
    PERFORM thermocline._leave_stream(v_table.id, 'the table was dropped');
    SELECT count(*), sum(thermocline._estimated_rows(c.oid, c.reltuples)), sum(pg_total_relation_size(c.oid))
    INTO v_chunks, v_rows, v_bytes
    FROM lakets._chunk_metadata m JOIN pg_class c ON c.oid = m.chunk_oid
    WHERE m.chronotable_id = v_table.id AND m.status <> 'dropped';
    INSERT INTO thermocline.audit (action, object, chronotable_id, row_count, bytes, forced, reason, evidence)
    VALUES ('drop_chronotable', format('%I.%I', p_schema_name, p_table_name), v_table.id, v_rows, v_bytes, true, 'asked for',
            jsonb_build_object('chunks', v_chunks, 'rows_are_estimated', true, 'lake_table', v_synced.lake_table,
                               'position', pg_current_wal_insert_lsn()));
    PERFORM thermocline._drop_rollups_of(v_table.id);
    -- A chunk that a worker has just detached, or is loading from the lake, is a table of its own.
    FOR v_apart IN
        SELECT d.chunk_oid FROM thermocline.detaching d JOIN pg_class c ON c.oid = d.chunk_oid
        WHERE d.chronotable_id = v_table.id AND NOT c.relispartition
        UNION
        SELECT r.staged_oid FROM thermocline.rehydration r JOIN pg_class c ON c.oid = r.staged_oid
        WHERE r.chronotable_id = v_table.id AND NOT c.relispartition
    LOOP
        EXECUTE format('DROP TABLE %s CASCADE', v_apart::regclass);
    END LOOP;
    IF EXISTS (SELECT FROM pg_class WHERE oid = v_table.table_oid) THEN
        EXECUTE format('DROP TABLE %s CASCADE', v_table.table_oid::regclass);
    END IF;
    PERFORM thermocline._drop_shadow(v_table.id);
    DELETE FROM lakets._rollup_invalidation_log WHERE chronotable_id = v_table.id;
    DELETE FROM lakets._chronotable_registry WHERE id = v_table.id;
    RAISE NOTICE '%.% and % chunks are dropped%', p_schema_name, p_table_name, v_chunks,
        coalesce('; what is in the lake stays: ' || v_synced.lake_table, '');
EXCEPTION
    WHEN out_of_memory THEN  -- of locks: each chunk, index and constraint needs one until the transaction ends
        RAISE EXCEPTION 'cannot drop %.% with so many chunks at once: %', p_schema_name, p_table_name, SQLERRM
            USING HINT = format('Nothing was changed. CALL lakets.drop_chronotable_in_batches(%L, %L) drops it some chunks at a time;'
                                ' or raise max_locks_per_transaction.', p_table_name, p_schema_name);
END
$$;

COMMENT ON FUNCTION lakets.drop_chronotable(text, text) IS
    'Drops a ChronoTable with its chunks; its history stays in the lake.';
