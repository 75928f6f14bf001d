-- A chunk that was dropped by other means than ours. Of a range that is over, the lake keeps what it has, and late rows meet the
-- trap. A range that is still written to is as if truncated: it is made again, empty, and the stream is told. So is one
-- for which somebody has attached another table.
CREATE OR REPLACE FUNCTION thermocline._forget_chunk(p_id int)
RETURNS TABLE (object text, finding text, done text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    c_found constant text := 'it was dropped by other means';
    v_chunk    lakets._chunk_metadata;
    v_replaced boolean;
BEGIN
    SELECT * INTO STRICT v_chunk FROM lakets._chunk_metadata m WHERE m.id = p_id;
    v_replaced := EXISTS (
        SELECT FROM lakets._chronotable_registry r, thermocline._foreign_partitions(r.table_oid) f
        WHERE r.id = v_chunk.chronotable_id
          AND thermocline._range_of(f.partition) && tstzrange(v_chunk.range_start, v_chunk.range_end));
    PERFORM thermocline._record_drop(
        p_id, jsonb_build_object('gated', false, 'noticed', true, 'rows_are_estimated', true, 'row_count', v_chunk.row_count),
        v_chunk.size_bytes, true, 'noticed: ' || c_found);
    IF v_chunk.range_end <= now() AND NOT v_replaced THEN
        PERFORM thermocline._set_traps(v_chunk.chronotable_id, false);
        RETURN QUERY VALUES (v_chunk.chunk_name, c_found, 'audited; late rows of its range are refused');
    ELSE
        DELETE FROM thermocline.dropped_range d
        WHERE d.chronotable_id = v_chunk.chronotable_id AND d.range_start = v_chunk.range_start;
        PERFORM thermocline._tell(jsonb_build_object(
            'event', 'chunk_truncated', 'chronotable', v_chunk.chronotable_id, 'chunk', v_chunk.chunk_oid::bigint,
            'range_start', v_chunk.range_start, 'range_end', v_chunk.range_end));
        PERFORM thermocline._mark_range(v_chunk.chronotable_id, v_chunk.range_start, v_chunk.range_end);
        IF v_replaced THEN
            RETURN QUERY VALUES (v_chunk.chunk_name, c_found, 'audited; another partition is in its place');
        ELSE
            PERFORM lakets._create_chunk(v_chunk.chronotable_id, v_chunk.range_start, v_chunk.range_end);
            RETURN QUERY VALUES (v_chunk.chunk_name, c_found, 'audited, and made again, empty: its range is not over');
        END IF;
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._forget_chunk(int) IS
    'Takes note that a chunk is gone; returns what was found and done.';
