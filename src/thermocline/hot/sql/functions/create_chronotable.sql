-- Turns a plain table, empty or with rows, into a ChronoTable: native partitions by time on a UTC grid.
-- Everything that the table has is kept, or it is refused before anything is touched, with every reason at once.
CREATE OR REPLACE FUNCTION lakets.create_chronotable(
    p_table_name     text,
    p_time_column    text,
    p_chunk_interval interval DEFAULT '7 days',
    p_schema_name    text     DEFAULT 'public',
    p_if_not_exists  boolean  DEFAULT false
) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET row_security = off
AS $$
DECLARE
    v_id      int;
    v_old     oid := to_regclass(quote_ident(p_schema_name) || '.' || quote_ident(p_table_name));
    v_new     oid;
    v_reasons text[];
    v_columns text;
    v_first   timestamptz;
    v_last    timestamptz;
    v_before  text[];
    v_after   text[];
    v_cluster text;
    v_do      text;
    v_spare   text := 'thermocline_converting_' || v_old;
BEGIN
    IF p_table_name IS NULL OR p_schema_name IS NULL OR p_time_column IS NULL THEN
        RAISE EXCEPTION 'cannot make a ChronoTable: table, schema and time column need names'
            USING HINT = 'SELECT lakets.create_chronotable(''readings'', ''time'', interval ''1 day'').';
    END IF;
    PERFORM thermocline._require_read_committed(format('make %I.%I a ChronoTable', p_schema_name, p_table_name));
    -- Another table had the name before, and was dropped or renamed by other means than ours.
    PERFORM lakets._reconcile(id) FROM lakets._chronotable_registry
    WHERE schema_name = p_schema_name AND table_name = p_table_name AND table_oid IS DISTINCT FROM v_old;
    SELECT id INTO v_id FROM lakets._chronotable_registry WHERE table_oid = v_old;
    IF v_id IS NOT NULL AND p_if_not_exists THEN
        RAISE NOTICE '%.% is a ChronoTable already, left as it is', p_schema_name, p_table_name;
        RETURN v_id;
    END IF;
    IF v_old IS NOT NULL AND (SELECT relkind FROM pg_class WHERE oid = v_old) = 'r' THEN
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', v_old::regclass);
        v_old := to_regclass(format('%I.%I', p_schema_name, p_table_name));  -- somebody may have done it while we waited
        v_spare := 'thermocline_converting_' || v_old;
        SELECT id INTO v_id FROM lakets._chronotable_registry WHERE table_oid = v_old;
        IF v_id IS NOT NULL AND p_if_not_exists THEN
            RAISE NOTICE '%.% is a ChronoTable already, left as it is', p_schema_name, p_table_name;
            RETURN v_id;
        END IF;
    END IF;
    v_reasons := lakets._reasons_against(v_old, p_schema_name, p_table_name, p_time_column, p_chunk_interval);
    IF cardinality(v_reasons) > 0 THEN
        RAISE EXCEPTION 'cannot make %.% a ChronoTable: %', p_schema_name, p_table_name, array_to_string(v_reasons, '; ')
            USING HINT = 'Nothing was changed. Mend what is listed and call again.';
    END IF;

    BEGIN
        EXECUTE format(
            'SELECT min(%1$I)::timestamptz, max(%1$I)::timestamptz FROM %2$s', p_time_column, v_old::regclass)
            INTO v_first, v_last;
        v_after := lakets._statements_after_conversion(v_old);
        SELECT coalesce(array_agg(format('DROP VIEW %s', f.view_oid::regclass) ORDER BY f.depth DESC, f.view_oid), '{}')
        INTO v_before
        FROM lakets._views_of(v_old) f;
        SELECT indexrelid::regclass::text INTO v_cluster FROM pg_index WHERE indrelid = v_old AND indisclustered;
        SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) INTO v_columns
        FROM pg_attribute WHERE attrelid = v_old AND attnum > 0 AND NOT attisdropped AND attgenerated = '';

        FOREACH v_do IN ARRAY v_before LOOP
            EXECUTE v_do;
        END LOOP;
        EXECUTE format('ALTER TABLE %s RENAME TO %I', v_old::regclass, v_spare);
        EXECUTE format(
            'CREATE TABLE %I.%I (LIKE %s INCLUDING ALL EXCLUDING INDEXES) PARTITION BY RANGE (%I)',
            p_schema_name, p_table_name, v_old::regclass, p_time_column);
        v_new := to_regclass(format('%I.%I', p_schema_name, p_table_name));
        PERFORM thermocline._revoke_defaults(v_new);
        EXECUTE format('ALTER TABLE %s OWNER TO %I', v_new::regclass, (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = v_old));
        PERFORM thermocline._same_statistics(v_old, v_new);
        v_after := thermocline._names_of_statistics(v_old, v_new) || v_after;
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL', v_new::regclass, p_time_column);
        EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', v_new::regclass);
        INSERT INTO lakets._chronotable_registry (schema_name, table_name, time_column, chunk_interval, table_oid, chunk_options)
        VALUES (p_schema_name, p_table_name, p_time_column, p_chunk_interval, v_new,
                (SELECT nullif(coalesce(c.reloptions, '{}') || ARRAY(SELECT 'toast.' || o FROM unnest(t.reloptions) o), '{}')
                 FROM pg_class c LEFT JOIN pg_class t ON t.oid = c.reltoastrelid WHERE c.oid = v_old))
        RETURNING id INTO v_id;
        PERFORM lakets._ensure_partitions(v_id, 1, lakets._chunks_ahead(p_chunk_interval, v_id), v_first, v_last);

        IF v_first IS NOT NULL THEN
            EXECUTE format('INSERT INTO %1$s (%2$s) OVERRIDING SYSTEM VALUE SELECT %2$s FROM %3$s',
                           v_new::regclass, v_columns, v_old::regclass);
        END IF;
        PERFORM lakets._move_sequences(v_old, v_new);
        EXECUTE format('DROP TABLE %s RESTRICT', v_old::regclass);
        FOREACH v_do IN ARRAY v_after LOOP
            EXECUTE v_do;
        END LOOP;
        PERFORM thermocline._same_indexes(v_id, chunk_oid, v_cluster::regclass) FROM lakets._chunk_metadata WHERE chronotable_id = v_id;
        PERFORM thermocline._index_time(v_id);
        PERFORM lakets._track_late_writes(v_id);
        EXECUTE format('ANALYZE %s', v_new::regclass);
        UPDATE lakets._chunk_metadata m
        SET row_count = greatest(c.reltuples, 0), size_bytes = thermocline._size_of(c.oid, c.reltoastrelid, c.relpersistence)
        FROM pg_class c WHERE m.chronotable_id = v_id AND c.oid = m.chunk_oid;
    EXCEPTION
        WHEN lock_not_available OR deadlock_detected OR raise_exception OR insufficient_privilege OR disk_full OR out_of_memory THEN
            RAISE;
        WHEN OTHERS THEN  -- something of the table that cannot be had with partitions
            RAISE EXCEPTION 'cannot make %.% a ChronoTable: %', p_schema_name, p_table_name, SQLERRM
                USING HINT = 'Nothing was changed. Mend what is said and call again.';
    END;
    RETURN v_id;
END
$$;

COMMENT ON FUNCTION lakets.create_chronotable(text, text, interval, text, boolean) IS
    'Turns a table into a ChronoTable with chunks of p_chunk_interval on p_time_column; returns its id.';
