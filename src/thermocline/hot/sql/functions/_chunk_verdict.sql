-- What speaks against dropping a chunk: no row when nothing does. Its bounds and its rows are looked at here, the rest together with
-- what others ask. The rows are read last; doubts about the lake come up only when nothing else is left.
CREATE OR REPLACE FUNCTION thermocline._chunk_verdict(
    p_chunk     oid,
    p_receipt   bigint  DEFAULT NULL,
    p_gated     boolean DEFAULT true,
    p_with_rows boolean DEFAULT true
) RETURNS TABLE (code text, message text, next_step text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '400ms'
AS $$
DECLARE
    c_place constant text[] := '{isolation_level,unknown_chunk,gone,detach_pending,moved,depended_on}';
    v_against  record;
    v_in_place boolean;
    v_receipt  thermocline.receipt;
    v_now      record;
BEGIN
    SELECT * INTO STRICT v_against FROM thermocline._chunks_against(ARRAY[p_chunk], p_gated IS NOT FALSE, p_receipt);
    IF NOT v_against.codes && c_place THEN
        SELECT coalesce(e.bound, d.bound) = format('FOR VALUES FROM (%L) TO (%L)', lakets._bound_of(m.range_start, y.type),
                                                   lakets._bound_of(m.range_end, y.type)) INTO v_in_place
        FROM lakets._chunk_metadata m
        JOIN lakets._chronotable_registry t ON t.id = m.chronotable_id
        JOIN pg_attribute a ON a.attrelid = t.table_oid AND a.attname = t.time_column
        LEFT JOIN thermocline.detaching d ON d.chunk_oid = m.chunk_oid,
        LATERAL format_type(a.atttypid, NULL) y (type), LATERAL thermocline._chunk_evidence(p_chunk, false) e
        WHERE m.chunk_oid = p_chunk AND m.status <> 'dropped';
        IF v_in_place IS NOT TRUE THEN
            v_against.codes := ARRAY['moved'];
        END IF;
    END IF;
    IF p_with_rows AND p_gated IS NOT FALSE AND v_against.codes <@ ARRAY['lake_changed', 'lake_unchecked'] THEN
        SELECT * INTO v_receipt FROM thermocline.receipt r WHERE r.id = v_against.receipt_id;
        SELECT * INTO v_now FROM thermocline._chunk_evidence(p_chunk, true);
        IF ((v_now.row_count, v_now.fingerprint, v_now.relfilenode, v_now.columns)
            = (v_receipt.row_count, v_receipt.fingerprint, v_receipt.relfilenode, v_receipt.columns)) IS NOT TRUE THEN
            RETURN QUERY SELECT 'changed_since_receipt', w.message, w.next_step
            FROM thermocline._reason_words('changed_since_receipt', p_then => v_receipt.row_count, p_now => v_now.row_count) w;
        END IF;
    END IF;
    RETURN QUERY SELECT c.code, w.message, w.next_step
    FROM unnest(v_against.codes) WITH ORDINALITY c (code, place)
    LEFT JOIN LATERAL thermocline._reason_words(
        c.code, v_against.table_name, v_against.schema_name, v_against.feed, v_against.rollups) w ON true
    ORDER BY c.place;
EXCEPTION
    WHEN lock_not_available THEN
        RETURN QUERY SELECT 'busy', w.message, w.next_step FROM thermocline._reason_words('busy') w;
END
$$;

COMMENT ON FUNCTION thermocline._chunk_verdict(oid, bigint, boolean, boolean) IS
    'Reasons against dropping a chunk: a code that never changes, words, and what to do. No row means it may go.';
