-- Marks the chunks of a RollUp's source that have changed without anybody's having written rows since its last refresh: attached, also
-- after they were away, or rewritten, or gone before they were known to us. What is detached may have been written to and may come back: it is marked until then, for all
-- RollUps. Returns what to remember; after an update from a release that did not, nothing is compared.
CREATE OR REPLACE FUNCTION thermocline._note_chunks(p_rollup lakets._rollup_registry) RETURNS bigint[]
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_parts  oid[];
    v_chunks bigint[];
    v_hidden boolean;
    v_first  timestamptz;
BEGIN
    IF p_rollup.source_chronotable_id IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT array_agg(c.part ORDER BY c.part), array_agg(c.state ORDER BY c.part),
           EXISTS (SELECT FROM lakets._chunk_metadata m
                   WHERE m.chronotable_id = p_rollup.source_chronotable_id AND m.status <> 'dropped'
                     AND NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = m.chunk_oid AND NOT h.inhdetachpending))
    INTO v_parts, v_chunks, v_hidden
    FROM thermocline._chunk_states(p_rollup.source_oid) c;
    IF v_chunks <> p_rollup.chunks THEN
        INSERT INTO lakets._rollup_invalidation_log (rollup_id, first_time, last_time, reason)
        SELECT p_rollup.id, lower(r.range), upper(r.range) - interval '1 microsecond', 'chunk_changed'
        FROM unnest(v_parts, v_chunks) p (part, chunk)
        LEFT JOIN lakets._chunk_metadata m ON m.chunk_oid = p.part AND m.status <> 'dropped',
        LATERAL (SELECT thermocline._range_of(p.part) UNION SELECT tstzrange(m.range_start, m.range_end)) r (range)
        WHERE p.chunk <> ALL (p_rollup.chunks) AND isfinite(lower(r.range)) AND isfinite(upper(r.range))
          AND lower(r.range) < p_rollup.watermark
          AND NOT EXISTS (SELECT FROM thermocline.dropped_range d WHERE d.trap_oid = p.part);
    END IF;
    IF NOT p_rollup.chunks <@ v_chunks THEN
        -- One is gone. If it was attached and detached before anybody registered it, its buckets lie where no chunk is or ever was.
        EXECUTE format('SELECT min(%I) FROM %s', p_rollup.bucket_column, p_rollup.rollup_oid::regclass) INTO v_first;
        INSERT INTO lakets._rollup_invalidation_log (rollup_id, first_time, last_time, reason)
        SELECT p_rollup.id, lower(g), upper(g) - interval '1 microsecond', 'chunk_changed'
        FROM unnest(CASE WHEN v_first < p_rollup.watermark THEN tstzmultirange(tstzrange(v_first, p_rollup.watermark)) END
                    - (SELECT coalesce(range_agg(k.range), '{}')
                       FROM (SELECT thermocline._range_of(p) FROM unnest(v_parts) p
                             UNION ALL
                             SELECT tstzrange(m.range_start, m.range_end) FROM lakets._chunk_metadata m
                             WHERE m.chronotable_id = p_rollup.source_chronotable_id
                             UNION ALL
                             SELECT tstzrange(d.range_start, d.range_end) FROM thermocline.dropped_range d
                             WHERE d.chronotable_id = p_rollup.source_chronotable_id) k (range))) g;
    END IF;
    IF v_hidden THEN
        PERFORM thermocline._mark_range(p_rollup.source_chronotable_id, h.range_start, h.range_end, 'chunk_changed')
        FROM thermocline._hidden_chunks(p_rollup.source_chronotable_id) h JOIN pg_class c ON c.oid = h.chunk_oid;
    END IF;
    RETURN v_chunks;
END
$$;

COMMENT ON FUNCTION thermocline._note_chunks(lakets._rollup_registry) IS
    'Marks chunks that were attached or rewritten since the last refresh of a RollUp; returns the chunks that there are.';
