-- What of a range could come back from the lake: a line for each dropped range that it touches, for each resident chunk, and for each
-- stretch of which there never was anything. A line without a code is to be brought back; what cannot be known speaks against it.
CREATE OR REPLACE FUNCTION thermocline._rehydration_plan(p_chronotable_id int, p_from timestamptz, p_to timestamptz)
RETURNS TABLE (range_start timestamptz, range_end timestamptz, row_count bigint, code text, message text, next_step text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    v_table  lakets._chronotable_registry;
    v_synced thermocline.synced_table;
    v_one    record;
    v_late   boolean;
BEGIN
    SELECT * INTO STRICT v_table FROM lakets._chronotable_registry r WHERE r.id = p_chronotable_id;
    SELECT * INTO v_synced FROM thermocline.synced_table s WHERE s.chronotable_id = p_chronotable_id;
    FOR v_one IN
        SELECT d.range_start, d.range_end, d.in_lake, d.trap_oid, c.row_count AS rows, k.relfilenode AS trap_file
        FROM thermocline.dropped_range d
        LEFT JOIN thermocline.receipt c ON c.id = d.receipt_id
        LEFT JOIN pg_class k ON k.oid = d.trap_oid
        WHERE d.chronotable_id = p_chronotable_id AND d.range_start < p_to AND d.range_end > p_from
        ORDER BY d.range_start
    LOOP
        v_late := NULL;
        IF v_one.trap_file IS NOT NULL THEN
            EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s)', v_one.trap_oid::regclass) INTO v_late;
        END IF;
        RETURN QUERY
        SELECT v_one.range_start, v_one.range_end, v_one.rows, a.code, a.message, a.next_step
        FROM (SELECT) one LEFT JOIN LATERAL (
            SELECT r.* FROM (VALUES
                (1, 'not_in_lake', v_one.in_lake,
                 'it was dropped outright, and the lake does not have it', 'There is nothing to bring back.'),
                (2, 'not_synced', v_synced.status <> 'TERMINATED',
                 'its table is not synced, so nobody knows what the lake has of it',
                 format('SELECT lakets.enable_sync(%L, %L), then `thermocline feed`.', v_table.table_name, v_table.schema_name)),
                (3, 'feed_not_streaming', v_synced.status = 'STREAMING',
                 format('the feed of its table is %s', v_synced.status), '`thermocline feed status` says why, and what to do.'),
                (4, 'shadow_mode', v_synced.mode = 'direct',
                 'its table is synced in shadow mode, and the mirror would not have what came back',
                 format('SELECT lakets.enable_sync(%L, %L, p_mode => ''direct'') first.', v_table.table_name, v_table.schema_name)),
                (5, 'no_trap', v_one.trap_file IS NOT NULL,
                 'nothing keeps late rows out of it while it comes back', 'Try again: a trap is set by `thermocline maintain`.'),
                (6, 'late_rows', v_late IS FALSE,
                 'late rows for it or for ranges beside it are on their way to the lake', 'They are settled first: `thermocline late`; then try again.')
            ) AS r (n, code, holds, message, next_step) WHERE r.holds IS NOT TRUE ORDER BY r.n LIMIT 1
        ) a ON true;
    END LOOP;
    RETURN QUERY
    SELECT m.range_start, m.range_end, thermocline._estimated_rows(c.oid, c.reltuples),
           CASE WHEN m.kept_until IS NULL THEN 'resident' ELSE 'kept' END,
           CASE WHEN m.kept_until IS NULL THEN 'it is in PostgreSQL: ' ELSE 'it is back already: ' END || m.chunk_name,
           CASE WHEN m.kept_until IS NULL THEN 'Nothing to do.' ELSE 'It is kept for as long as is asked for now.' END
    FROM lakets._chunk_metadata m LEFT JOIN pg_class c ON c.oid = m.chunk_oid
    WHERE m.chronotable_id = p_chronotable_id AND m.status <> 'dropped' AND m.range_start < p_to AND m.range_end > p_from
    ORDER BY m.range_start;
    RETURN QUERY
    SELECT lower(x), upper(x), NULL::bigint, 'never_there', 'there has never been a chunk of it', 'Look at the dates; they are in UTC.'
    FROM unnest(tstzmultirange(tstzrange(p_from, p_to)) - coalesce((
        SELECT range_agg(tstzrange(k.range_start, k.range_end)) FROM (
            SELECT d.range_start, d.range_end FROM thermocline.dropped_range d WHERE d.chronotable_id = p_chronotable_id
            UNION ALL
            SELECT m.range_start, m.range_end FROM lakets._chunk_metadata m
            WHERE m.chronotable_id = p_chronotable_id AND m.status <> 'dropped') k), '{}')) x
    ORDER BY 1;
END
$$;

COMMENT ON FUNCTION thermocline._rehydration_plan(int, timestamptz, timestamptz) IS
    'What of a range of a ChronoTable can be brought back from the lake, and what speaks against the rest.';
