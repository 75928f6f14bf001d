-- Makes one chunk: a table of its own by LIKE, REPLICA IDENTITY FULL, then ATTACH. (CREATE TABLE ... PARTITION OF would
-- wait behind every open reader, and leaves do not inherit the replica identity.) Its creation is told to the stream.
-- With a foreign key, ATTACH locks the table that is referred to against writers, and waits for those that are open: it gives
-- way soon, or everybody who writes there would queue behind it.
CREATE OR REPLACE FUNCTION lakets._create_chunk(
    p_chronotable_id int,
    p_range_start    timestamptz,
    p_range_end      timestamptz
) RETURNS oid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    v_table  lakets._chronotable_registry;
    v_type   text;
    v_chunk  text;
    v_oid    oid;
    v_attach text;
    v_others text;
BEGIN
    SELECT * INTO STRICT v_table FROM lakets._chronotable_registry WHERE id = p_chronotable_id;
    SELECT format_type(a.atttypid, NULL) INTO STRICT v_type
    FROM pg_attribute a WHERE a.attrelid = v_table.table_oid AND a.attname = v_table.time_column;
    v_chunk := thermocline._make_chunk_table(p_chronotable_id, p_range_start, p_range_end);
    v_attach := format(
        'ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)',
        v_table.table_oid::regclass, v_chunk,
        lakets._bound_of(p_range_start, v_type), lakets._bound_of(p_range_end, v_type));
    SELECT string_agg(DISTINCT confrelid::regclass::text, ', ') INTO v_others
    FROM pg_constraint WHERE conrelid = v_table.table_oid AND contype = 'f' AND conparentid = 0;
    IF v_others IS NULL THEN
        EXECUTE v_attach;
    ELSE
        BEGIN
            EXECUTE format('LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE', v_table.table_oid::regclass);
            PERFORM thermocline._give_way(v_attach);
        EXCEPTION
            WHEN lock_not_available THEN
                RAISE EXCEPTION 'cannot make a chunk of %.% for [%, %): % is written to, and its writers are not kept waiting',
                    v_table.schema_name, v_table.table_name, p_range_start, p_range_end, v_others
                    USING ERRCODE = 'lock_not_available',
                          HINT = 'Try again; `thermocline maintain` does so for some seconds. Look for long transactions in'
                                 ' pg_stat_activity.';
        END;
    END IF;
    v_oid := v_chunk::regclass::oid;
    PERFORM thermocline._same_indexes(p_chronotable_id, v_oid);

    PERFORM thermocline._register_chunk(p_chronotable_id, v_oid, v_chunk, p_range_start, p_range_end);
    PERFORM thermocline._tell(jsonb_build_object(
        'event', 'chunk_created', 'chronotable', p_chronotable_id, 'chunk', v_oid::bigint,
        'file', (SELECT relfilenode::bigint FROM pg_class WHERE oid = v_oid),
        'attached', (SELECT i.xmin::text::bigint FROM pg_inherits i WHERE i.inhrelid = v_oid),
        'range_start', p_range_start, 'range_end', p_range_end));
    RETURN v_oid;
END
$$;

COMMENT ON FUNCTION lakets._create_chunk(int, timestamptz, timestamptz) IS
    'Makes and attaches the chunk of a ChronoTable for one range; returns its oid.';
