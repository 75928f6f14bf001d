-- Lets the feed copy a synced ChronoTable or RollUp again, or one chunk of it: from the copy on, what the lake had of it before does not
-- count any more. Returns how many chunks are to be copied. A table that was set aside joins again, as by disable_sync and enable_sync.
CREATE OR REPLACE FUNCTION lakets.resync(
    p_table_name  text,
    p_schema_name text DEFAULT 'public',
    p_chunk_name  text DEFAULT NULL
) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $$
DECLARE
    v_target record;
    v_synced thermocline.synced_table;
    v_parts  oid[];
BEGIN
    SELECT * INTO STRICT v_target FROM thermocline._sync_target(p_table_name, p_schema_name);
    PERFORM pg_advisory_xact_lock(hashtextextended('thermocline publication', 0));
    SELECT * INTO v_synced FROM thermocline.synced_table s WHERE s.chronotable_id = v_target.id AND s.status <> 'TERMINATED';
    IF v_synced.chronotable_id IS NULL THEN
        RAISE EXCEPTION 'cannot resync %: it is not synced', v_target.title
            USING HINT = format('SELECT lakets.enable_sync(%L, %L) copies all of it.', p_table_name, p_schema_name);
    END IF;
    SELECT array_agg(p.part_oid) INTO v_parts
    FROM thermocline.resident_part p JOIN pg_class c ON c.oid = p.part_oid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE p.id = v_target.id
      AND (p_chunk_name IS NULL OR p_chunk_name IN (c.relname, n.nspname || '.' || c.relname, format('%I.%I', n.nspname, c.relname)));
    IF p_chunk_name IS NOT NULL AND v_parts IS NULL THEN
        RAISE EXCEPTION 'cannot resync %: it has no resident chunk %', v_target.title, p_chunk_name
            USING HINT = 'lakets.show_chunks lists them. What has left PostgreSQL cannot be copied.';
    END IF;
    IF v_synced.status = 'SKIPPED' AND p_chunk_name IS NOT NULL THEN
        RAISE EXCEPTION 'cannot resync a chunk of %: the table is set aside', v_target.title
            USING HINT = format('Resync all of it. It was set aside because: %s', v_synced.reason);
    END IF;
    IF v_synced.status = 'SKIPPED' THEN
        PERFORM thermocline._leave_stream(v_target.id, 'it is synced anew');
        PERFORM lakets.enable_sync(p_table_name, p_schema_name, v_synced.mode);
    ELSE
        DELETE FROM thermocline.chunk_copy k WHERE k.chunk_oid = ANY (v_parts);
    END IF;
    INSERT INTO thermocline.audit (action, object, chronotable_id, reason)
    VALUES ('resync', CASE WHEN p_chunk_name IS NULL THEN v_target.title ELSE v_parts[1]::regclass::text END, v_target.id,
            format('%s to be copied again; a copy supersedes what the lake had of it',
                   CASE WHEN p_chunk_name IS NULL THEN format('%s chunks are', coalesce(cardinality(v_parts), 0)) ELSE 'the chunk is' END));
    RETURN coalesce(cardinality(v_parts), 0);
END
$$;

COMMENT ON FUNCTION lakets.resync(text, text, text) IS
    'Has the feed copy a synced table, or one chunk of it, again; what the lake had of it before is superseded.';
