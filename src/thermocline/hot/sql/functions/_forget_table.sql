-- A ChronoTable that was dropped by other means than drop_chronotable: noted, and forgotten. Its history in the lake stays.
CREATE OR REPLACE FUNCTION thermocline._forget_table(p_id int)
RETURNS TABLE (object text, finding text, done text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_name   text := (SELECT format('%I.%I', r.schema_name, r.table_name) FROM lakets._chronotable_registry r
                      WHERE r.id = p_id);
    v_lake   text := (SELECT s.lake_table FROM thermocline.synced_table s WHERE s.chronotable_id = p_id);
    v_chunks bigint;
    v_rows   bigint;
    v_bytes  bigint;
BEGIN
    SELECT count(*), sum(m.row_count), sum(m.size_bytes) INTO v_chunks, v_rows, v_bytes
    FROM lakets._chunk_metadata m WHERE m.chronotable_id = p_id AND m.status <> 'dropped';
    INSERT INTO thermocline.audit (action, object, chronotable_id, row_count, bytes, forced, reason, evidence)
    VALUES ('table_gone', v_name, p_id, v_rows, v_bytes, true, 'noticed: it was dropped by other means than drop_chronotable',
            jsonb_build_object('chunks', v_chunks, 'rows_are_estimated', true, 'lake_table', v_lake,
                               'position', pg_current_wal_insert_lsn()));
    PERFORM thermocline._drop_shadow(p_id);
    DELETE FROM lakets._rollup_invalidation_log l WHERE l.chronotable_id = p_id;
    PERFORM thermocline._forget_rollups(p_id);
    DELETE FROM lakets._chronotable_registry r WHERE r.id = p_id;
    RETURN QUERY VALUES (v_name, 'it was dropped by other means than drop_chronotable',
                         'audited and forgotten' || coalesce('; its history stays in the lake: ' || v_lake, ''));
END
$$;

COMMENT ON FUNCTION thermocline._forget_table(int) IS
    'Takes note that a ChronoTable is gone; returns what was found and done.';
