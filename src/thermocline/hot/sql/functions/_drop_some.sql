-- A step of drop_chronotable_in_batches: ends the sync of a ChronoTable, drops its RollUps, then so many of its chunks, the oldest first, or
-- fewer if the server has no room for their locks. Returns how many; none when no chunk is left.
CREATE OR REPLACE FUNCTION thermocline._drop_some(p_table_name text, p_schema_name text, p_batch int) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_table  lakets._chronotable_registry;
    v_chunks oid[];
    v_chunk  oid;
    v_rows   bigint;
    v_bytes  bigint;
    v_left   bigint;
BEGIN
    IF p_batch IS NULL OR p_batch < 1 THEN
        RAISE EXCEPTION 'cannot drop %.% in batches of % chunks', p_schema_name, p_table_name, coalesce(p_batch::text, 'NULL')
            USING HINT = 'Give one or more.';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('thermocline publication', 0));  -- as drop_chronotable does, before any row
    SELECT * INTO v_table FROM lakets._chronotable_registry
    WHERE id = lakets._chronotable_id(p_table_name, p_schema_name) FOR UPDATE;
    PERFORM thermocline._require_owner(v_table.id);
    PERFORM thermocline._leave_stream(v_table.id, 'the table was dropped', true);
    PERFORM thermocline._drop_rollups_of(v_table.id);
    SELECT array_agg(c.oid), sum(thermocline._estimated_rows(c.oid, c.reltuples)), sum(pg_total_relation_size(c.oid))
    INTO v_chunks, v_rows, v_bytes
    FROM (SELECT m.chunk_oid FROM lakets._chunk_metadata m WHERE m.chronotable_id = v_table.id AND m.status <> 'dropped'
          ORDER BY m.range_start LIMIT p_batch) m JOIN pg_class c ON c.oid = m.chunk_oid;
    IF v_chunks IS NULL THEN
        RETURN 0;
    END IF;
    FOREACH v_chunk IN ARRAY v_chunks LOOP
        EXECUTE format('DROP TABLE %s CASCADE', v_chunk::regclass);
    END LOOP;
    DELETE FROM lakets._chunk_metadata WHERE chunk_oid = ANY (v_chunks);
    SELECT count(*) INTO v_left FROM lakets._chunk_metadata m WHERE m.chronotable_id = v_table.id AND m.status <> 'dropped';
    INSERT INTO thermocline.audit (action, object, chronotable_id, row_count, bytes, forced, reason, evidence)
    VALUES ('drop_chronotable', format('%I.%I', p_schema_name, p_table_name), v_table.id, v_rows, v_bytes, true,
            'asked for, in batches',
            jsonb_build_object('chunks', cardinality(v_chunks), 'chunks_left', v_left, 'rows_are_estimated', true,
                               'lake_table', (SELECT lake_table FROM thermocline.synced_table WHERE chronotable_id = v_table.id),
                               'position', pg_current_wal_insert_lsn()));
    RAISE NOTICE '% chunks of %.% are dropped, % are left', cardinality(v_chunks), p_schema_name, p_table_name, v_left;
    RETURN cardinality(v_chunks);
EXCEPTION
    WHEN out_of_memory THEN
        IF p_batch = 1 THEN
            RAISE;
        END IF;
        RETURN thermocline._drop_some(p_table_name, p_schema_name, p_batch / 2);
END
$$;

COMMENT ON FUNCTION thermocline._drop_some(text, text, int) IS
    'Drops some chunks of a ChronoTable that is being dropped; returns how many.';
