-- The table of a chunk, still apart: by LIKE, owned as the ChronoTable is, with its options and settings of statistics, and with the
-- identity that its changes need in the stream. Returns its quoted name.
CREATE OR REPLACE FUNCTION thermocline._make_chunk_table(
    p_chronotable_id int,
    p_range_start    timestamptz,
    p_range_end      timestamptz
) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    v_table lakets._chronotable_registry;
    v_chunk text;
BEGIN
    SELECT * INTO STRICT v_table FROM lakets._chronotable_registry WHERE id = p_chronotable_id;
    v_chunk := format('%I.%I', v_table.schema_name, lakets._chunk_name(v_table.table_name, p_range_start));
    IF EXISTS (SELECT FROM lakets._chunk_metadata m
               WHERE m.chunk_oid = to_regclass(v_chunk) AND m.chronotable_id <> p_chronotable_id AND m.status <> 'dropped') THEN
        -- The chunk of a table that had this name before.
        v_chunk := format('%I.%I', v_table.schema_name,
                          lakets._chunk_name(v_table.table_name || '_' || p_chronotable_id, p_range_start));
    END IF;
    IF to_regclass(v_chunk) IS NOT NULL THEN
        RAISE EXCEPTION 'cannot make a chunk of %.% for [%, %): % is there already',
            v_table.schema_name, v_table.table_name, p_range_start, p_range_end, v_chunk
            USING HINT = 'Rename or drop that table if it is not a part of the ChronoTable.';
    END IF;
    EXECUTE format('CREATE TABLE %s (LIKE %s INCLUDING ALL EXCLUDING IDENTITY)%s', v_chunk, v_table.table_oid::regclass,
                   (SELECT ' WITH (' || string_agg(o, ', ') || ')' FROM unnest(v_table.chunk_options) o
                    WHERE o ~ '^[a-z_.]+=[[:alnum:]_.+-]+$'));
    PERFORM thermocline._revoke_defaults(v_chunk::regclass);
    EXECUTE format('ALTER TABLE %s OWNER TO %I', v_chunk,
                   (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = v_table.table_oid));
    PERFORM thermocline._same_statistics(v_table.table_oid, v_chunk::regclass);
    EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', v_chunk);
    EXECUTE format(
        'CREATE TRIGGER trg_thermocline_truncate AFTER TRUNCATE ON %s FOR EACH STATEMENT'
        ' EXECUTE FUNCTION thermocline._chunk_truncated()', v_chunk);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER trg_thermocline_truncate', v_chunk);
    RETURN v_chunk;
END
$$;

COMMENT ON FUNCTION thermocline._make_chunk_table(int, timestamptz, timestamptz) IS
    'Makes the table of a chunk without attaching it; returns its name.';
