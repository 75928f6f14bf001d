-- Undoes the worker's detach of a chunk that may not go after all. Whatever was written to it meanwhile is not in the
-- stream, so it counts as not copied from here on.
CREATE OR REPLACE FUNCTION thermocline._attach_back(p_chunk oid, p_reason text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '400ms'
AS $$
DECLARE
    v_detaching thermocline.detaching;
    v_chunk     lakets._chunk_metadata;
    v_table     oid;
BEGIN
    SELECT * INTO STRICT v_detaching FROM thermocline.detaching WHERE chunk_oid = p_chunk FOR UPDATE NOWAIT;
    SELECT * INTO STRICT v_chunk FROM lakets._chunk_metadata WHERE chunk_oid = p_chunk AND status <> 'dropped';
    SELECT table_oid INTO STRICT v_table FROM lakets._chronotable_registry WHERE id = v_detaching.chronotable_id;
    IF v_detaching.bound !~ '^FOR VALUES FROM \(''[^'']+''\) TO \(''[^'']+''\)$' THEN
        RAISE EXCEPTION 'cannot attach % again: its bound on record makes no sense', p_chunk::regclass
            USING HINT = 'Attach it by hand for its range in lakets._chunk_metadata, then remove its row from thermocline.detaching.';
    END IF;
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s %s', v_table::regclass, p_chunk::regclass, v_detaching.bound);
    PERFORM thermocline._mark_range(v_chunk.chronotable_id, v_chunk.range_start, v_chunk.range_end, 'chunk_changed');
    DELETE FROM thermocline.chunk_copy WHERE chunk_oid = p_chunk;
    DELETE FROM thermocline.detaching WHERE chunk_oid = p_chunk;
    UPDATE lakets._chunk_metadata SET status = 'active', tiered_at = NULL WHERE id = v_chunk.id;
    INSERT INTO thermocline.audit (action, object, chronotable_id, range_start, range_end, reason)
    VALUES ('attach_back', v_chunk.chunk_name, v_chunk.chronotable_id, v_chunk.range_start, v_chunk.range_end, p_reason);
END
$$;

COMMENT ON FUNCTION thermocline._attach_back(oid, text) IS
    'Attaches a chunk again that the worker had detached and may not drop; it has to be copied anew.';
