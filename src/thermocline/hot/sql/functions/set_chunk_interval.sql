-- Changes how long the chunks are that are made from now on. Those that are there stay as they are; where the old grid and
-- the new one do not meet, _ensure_partitions fills the gap with a shorter chunk.
CREATE OR REPLACE FUNCTION lakets.set_chunk_interval(
    p_table_name     text,
    p_chunk_interval interval,
    p_schema_name    text DEFAULT 'public'
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id      int := lakets._chronotable_id(p_table_name, p_schema_name);
    v_reasons text[];
BEGIN
    PERFORM thermocline._require_owner(v_id);
    SELECT lakets._reasons_against_interval(p_chunk_interval, a.atttypid) INTO STRICT v_reasons
    FROM lakets._chronotable_registry r
    JOIN pg_partitioned_table p ON p.partrelid = r.table_oid
    JOIN pg_attribute a ON a.attrelid = r.table_oid AND a.attnum = p.partattrs[0]
    WHERE r.id = v_id;
    IF v_reasons = '{}' THEN
        v_reasons := array_remove(ARRAY[thermocline._reason_against_schedule(p_chunk_interval, v_id)], NULL);
    END IF;
    IF cardinality(v_reasons) > 0 THEN
        RAISE EXCEPTION 'cannot set the chunk interval of %.%: %', p_schema_name, p_table_name, array_to_string(v_reasons, '; ')
            USING HINT = 'Nothing was changed.';
    END IF;
    UPDATE lakets._chronotable_registry SET chunk_interval = p_chunk_interval WHERE id = v_id;
END
$$;

COMMENT ON FUNCTION lakets.set_chunk_interval(text, interval, text) IS
    'Sets how long new chunks of a ChronoTable are; chunks that are there stay as they are.';
