-- The second half of a drop: removes a chunk that this transaction has claimed. Locks are taken in the order of
-- applications, the table and then the chunk. Refuses a chunk that was not claimed, and one whose rows others refer to: a
-- table that a foreign key refers to, be it its own, is dropped by way of a detach, which looks for such rows.
CREATE OR REPLACE FUNCTION thermocline._remove_chunk(
    p_chunk    oid,
    p_evidence jsonb,
    p_forced   boolean,
    p_reason   text
) RETURNS pg_lsn
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '400ms'
AS $$
DECLARE
    v_chunk    lakets._chunk_metadata;
    v_parent   oid;
    v_position pg_lsn;
    v_key      text;
    v_from     text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation'
                                            AND l.relation = p_chunk AND l.mode = 'ShareLock' AND l.granted) THEN
        RAISE EXCEPTION '% was not claimed in this transaction', p_chunk::regclass
            USING DETAIL = 'not_claimed', HINT = 'Call thermocline._drop_chunk, which checks it first.';
    END IF;
    SELECT * INTO STRICT v_chunk FROM lakets._chunk_metadata WHERE chunk_oid = p_chunk AND status <> 'dropped';
    SELECT inhparent INTO v_parent FROM pg_inherits WHERE inhrelid = p_chunk;
    IF v_parent IS NOT NULL THEN
        PERFORM thermocline._lock(v_parent, 'ACCESS EXCLUSIVE');
    END IF;
    IF p_forced IS NOT TRUE AND (p_evidence ->> 'gated')::boolean IS NOT TRUE
       AND lakets._is_gated(v_chunk.chronotable_id) THEN
        RAISE EXCEPTION '% stays: its table was synced or given tiered retention meanwhile', p_chunk::regclass
            USING DETAIL = 'gated', HINT = '`thermocline retention` compares it with the lake before it drops it.';
    END IF;
    PERFORM thermocline._lock(p_chunk, 'ACCESS EXCLUSIVE');
    IF p_forced IS NOT TRUE AND EXISTS (
        SELECT FROM thermocline._rollups_behind(v_chunk.chronotable_id, v_chunk.range_start, v_chunk.range_end)) THEN
        RAISE EXCEPTION '% stays: RollUps still need its rows', p_chunk::regclass
            USING DETAIL = 'rollup_behind', HINT = 'SELECT * FROM lakets.refresh_rollup_cascade(); then try again. Buckets that are wider than the chunk have to be over.';
    END IF;
    PERFORM thermocline._lock(k.confrelid, 'ACCESS EXCLUSIVE')  -- DROP TABLE would wait for them on its own terms
    FROM (SELECT DISTINCT confrelid FROM pg_constraint WHERE conrelid = p_chunk AND contype = 'f') k;
    IF v_parent IS NOT NULL AND EXISTS (SELECT FROM pg_constraint WHERE confrelid = p_chunk AND contype = 'f') THEN
        PERFORM thermocline._lock(k.conrelid, 'ACCESS EXCLUSIVE')
        FROM (SELECT DISTINCT conrelid FROM pg_constraint WHERE confrelid = p_chunk AND contype = 'f') k
        WHERE k.conrelid <> v_parent;
        BEGIN
            EXECUTE format('ALTER TABLE %s DETACH PARTITION %s', v_parent::regclass, p_chunk::regclass);
        EXCEPTION
            WHEN foreign_key_violation THEN
                GET STACKED DIAGNOSTICS v_key = CONSTRAINT_NAME;
                SELECT k.conrelid::regclass::text, coalesce(p.conname, k.conname) INTO v_from, v_key  -- by the name that it was given
                FROM pg_constraint k LEFT JOIN pg_constraint p ON p.oid = k.conparentid
                WHERE k.confrelid = p_chunk AND k.contype = 'f' AND k.conname = v_key;
                RAISE EXCEPTION '% stays: rows of % refer to rows of it by the foreign key %', p_chunk::regclass, v_from, v_key
                    USING DETAIL = 'referred_to',
                          HINT = 'Drop the foreign key, or let those rows go first; rows of a chunk that refer to each other'
                                 ' keep it too.';
        END;
    END IF;
    v_position := thermocline._record_drop(v_chunk.id, p_evidence, pg_total_relation_size(p_chunk), p_forced, p_reason);
    EXECUTE format('DROP TABLE %s', p_chunk::regclass);
    RETURN v_position;
END
$$;

COMMENT ON FUNCTION thermocline._remove_chunk(oid, jsonb, boolean, text) IS
    'Drops a claimed chunk and writes down that it did; returns the position of the drop in the log.';
