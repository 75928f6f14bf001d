-- Writes down that a chunk leaves: a record in the stream, whose position readers need, the chunk's state, the range among
-- the dropped ones, and the audit.
CREATE OR REPLACE FUNCTION thermocline._record_drop(
    p_id       int,
    p_evidence jsonb,
    p_bytes    bigint,
    p_forced   boolean,
    p_reason   text
) RETURNS pg_lsn
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    v_rows     bigint := (p_evidence ->> 'row_count')::bigint;
    v_chunk    lakets._chunk_metadata;
    v_position pg_lsn;
    v_covered  boolean;
BEGIN
    UPDATE lakets._chunk_metadata
    SET status = 'dropped', row_count = coalesce(v_rows, row_count), size_bytes = coalesce(p_bytes, size_bytes)
    WHERE id = p_id AND status <> 'dropped'
    RETURNING * INTO STRICT v_chunk;
    v_position := thermocline._tell(jsonb_build_object(
        'event', 'chunk_dropped', 'chronotable', v_chunk.chronotable_id, 'chunk', v_chunk.chunk_oid::bigint,
        'range_start', v_chunk.range_start, 'range_end', v_chunk.range_end));
    DELETE FROM thermocline.chunk_copy WHERE chunk_oid = v_chunk.chunk_oid;
    v_covered := FOUND;  -- every change of it is in the lake or on its way there, proven or not
    DELETE FROM thermocline.mended_chunk WHERE chunk_oid = v_chunk.chunk_oid;
    DELETE FROM thermocline.detaching WHERE chunk_oid = v_chunk.chunk_oid;
    DELETE FROM thermocline.unproven WHERE chunk_oid = v_chunk.chunk_oid;
    INSERT INTO thermocline.mirror_doubt (chronotable_id, times)  -- its rows leave the mirror later, some at a time
    SELECT m.chronotable_id, tstzrange(v_chunk.range_start, v_chunk.range_end)
    FROM thermocline.mirror m WHERE m.chronotable_id = v_chunk.chronotable_id;
    PERFORM thermocline._serve_from_rollups(v_chunk.chronotable_id, v_chunk.range_end);
    PERFORM thermocline._note_incomplete(g.id, x.lost)
    FROM lakets._rollup_registry g,
         LATERAL (SELECT thermocline._buckets_over(g, tstzmultirange(tstzrange(v_chunk.range_start, v_chunk.range_end))) AS times) o,
         LATERAL (SELECT o.times * tstzmultirange(tstzrange(g.complete_until, NULL))
                         + coalesce((SELECT range_agg(tstzrange(p.bucket, p.bucket_end)) FROM lakets._rollup_pending(g.id) p
                                     WHERE p.bucket <@ o.times), '{}') AS lost) x
    WHERE g.source_chronotable_id = v_chunk.chronotable_id AND NOT isempty(x.lost);
    INSERT INTO thermocline.dropped_range
        (chronotable_id, range_start, range_end, chunk_oid, receipt_id, receipt_position, drop_position, lake_uuid,
         in_lake, settled_position)
    VALUES (v_chunk.chronotable_id, v_chunk.range_start, v_chunk.range_end, v_chunk.chunk_oid,
            (p_evidence #>> '{receipt,id}')::bigint, (p_evidence #>> '{receipt,position}')::pg_lsn, v_position,
            (p_evidence #>> '{receipt,lake_uuid}')::uuid,
            v_covered,
            -- Proven, so its trap may take late rows at once: they come after the drop.
            (SELECT v_position FROM lakets._chronotable_registry r
             WHERE r.id = v_chunk.chronotable_id AND r.late = 'lake' AND v_covered AND (p_evidence ->> 'gated')::boolean))
    ON CONFLICT (chronotable_id, range_start) DO UPDATE
        SET range_end = excluded.range_end, chunk_oid = excluded.chunk_oid, receipt_id = excluded.receipt_id,
            receipt_position = excluded.receipt_position, drop_position = excluded.drop_position,
            trap_oid = NULL, dropped_at = excluded.dropped_at, lake_uuid = excluded.lake_uuid,
            in_lake = excluded.in_lake, settled_position = excluded.settled_position;
    INSERT INTO thermocline.audit
        (action, object, chronotable_id, range_start, range_end, row_count, bytes, forced, reason, evidence)
    VALUES ('drop_chunk', v_chunk.chunk_name, v_chunk.chronotable_id, v_chunk.range_start, v_chunk.range_end,
            v_rows, p_bytes, p_forced, p_reason, p_evidence || jsonb_build_object('drop_position', v_position));
    RETURN v_position;
END
$$;

COMMENT ON FUNCTION thermocline._record_drop(int, jsonb, bigint, boolean, text) IS
    'Records in stream, registry and audit that a chunk leaves; returns the position of the record in the log.';
