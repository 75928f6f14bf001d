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
    v_chunk lakets._chunk_metadata;
    v_range tstzrange;
    v_taken tstzmultirange;
    v_again tstzmultirange;
BEGIN
    SELECT * INTO STRICT v_chunk FROM lakets._chunk_metadata m WHERE m.id = p_id;
    v_range := tstzrange(v_chunk.range_start, v_chunk.range_end);
    SELECT coalesce(range_agg(thermocline._range_of(f.partition) * v_range), '{}') INTO v_taken
    FROM lakets._chronotable_registry r, thermocline._foreign_partitions(r.table_oid) f
    WHERE r.id = v_chunk.chronotable_id AND thermocline._range_of(f.partition) && v_range;
    PERFORM thermocline._record_drop(
        p_id, jsonb_build_object('gated', false, 'noticed', true, 'rows_are_estimated', true, 'row_count', v_chunk.row_count),
        v_chunk.size_bytes, true, 'noticed: ' || c_found);
    IF v_chunk.range_end > now() OR NOT isempty(v_taken) THEN
        -- What is here again, or will be, is as if truncated.
        v_again := CASE WHEN v_chunk.range_end > now() THEN tstzmultirange(v_range) ELSE v_taken END;
        PERFORM thermocline._tell(jsonb_build_object(
                    'event', 'chunk_truncated', 'chronotable', v_chunk.chronotable_id, 'chunk', v_chunk.chunk_oid::bigint,
                    'range_start', lower(x), 'range_end', upper(x))),
                thermocline._mark_range(v_chunk.chronotable_id, lower(x), upper(x), 'chunk_changed')
        FROM unnest(v_again) x;
        -- The rest of it has left.
        WITH gone AS (
            DELETE FROM thermocline.dropped_range d
            WHERE d.chronotable_id = v_chunk.chronotable_id AND d.range_start = v_chunk.range_start RETURNING d.*
        )
        INSERT INTO thermocline.dropped_range
            (chronotable_id, range_start, range_end, chunk_oid, receipt_id, receipt_position, drop_position, lake_uuid, in_lake)
        SELECT g.chronotable_id, lower(x), upper(x), g.chunk_oid, g.receipt_id, g.receipt_position, g.drop_position, g.lake_uuid,
               g.in_lake
        FROM gone g, unnest(tstzmultirange(v_range) - v_again) x;
        IF v_chunk.range_end > now() THEN
            PERFORM lakets._create_chunk(v_chunk.chronotable_id, lower(x), upper(x))
            FROM unnest(tstzmultirange(v_range) - v_taken) x;
        END IF;
    END IF;
    PERFORM thermocline._set_traps(v_chunk.chronotable_id, false);
    RETURN QUERY VALUES (v_chunk.chunk_name, c_found, CASE
        WHEN NOT isempty(v_taken) THEN 'audited; another partition is in its place'
        WHEN v_chunk.range_end > now() THEN 'audited, and made again, empty: its range is not over'
        ELSE 'audited; late rows of its range are refused' END);
END
$$;

COMMENT ON FUNCTION thermocline._forget_chunk(int) IS
    'Takes note that a chunk is gone; returns what was found and done.';
