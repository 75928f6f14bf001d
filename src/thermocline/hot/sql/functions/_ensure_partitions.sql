-- Makes the chunks that are missing: around now, and over a range if one is given. Callers at once take turns. A range that
-- has left PostgreSQL is not missing: it lives in the lake, and a chunk in its place would hide that.
CREATE OR REPLACE FUNCTION lakets._ensure_partitions(
    p_chronotable_id int,
    p_past_count     int         DEFAULT 1,
    p_future_count   int         DEFAULT 3,
    p_range_start    timestamptz DEFAULT NULL,
    p_range_end      timestamptz DEFAULT NULL
) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
    c_most  constant int := 10000;
    v_step  interval;
    v_start timestamptz;
    v_stop  timestamptz;
    v_made  int := 0;
    v_from  timestamptz;
    v_to    timestamptz;
BEGIN
    SELECT chunk_interval INTO v_step FROM lakets._chronotable_registry WHERE id = p_chronotable_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no ChronoTable with the id %', p_chronotable_id
            USING HINT = 'SELECT id, table_name FROM lakets._chronotable_registry lists them.';
    END IF;
    v_start := lakets.time_bucket(v_step, least(now() - p_past_count * v_step, p_range_start));
    v_stop  := greatest(now() + p_future_count * v_step, p_range_end);
    IF v_start < timestamptz '0001-01-01 00:00Z' OR v_stop + v_step > timestamptz '9999-12-31 00:00Z' THEN
        RAISE EXCEPTION 'chunks from % to % would leave the years 1 to 9999', v_start, v_stop
            USING HINT = 'Look for rows with a wrong time.';
    END IF;
    IF extract(epoch FROM v_stop - v_start) / extract(epoch FROM v_step) > c_most THEN
        RAISE EXCEPTION 'from % to % it would take more than % chunks of %', v_start, v_stop, c_most, v_step
            USING HINT = 'Look for rows with a wrong time, or choose longer chunks.';
    END IF;
    -- Of each step of the grid the part that nothing covers: another interval's chunks may end in the middle of one.
    FOR v_from, v_to IN
        SELECT lower(gap), upper(gap)
        FROM thermocline._grid(v_step, v_start, v_stop) step,
             LATERAL (SELECT range_agg(tstzrange(m.range_start, m.range_end)) AS taken FROM (
                          SELECT range_start, range_end FROM lakets._chunk_metadata
                          WHERE chronotable_id = p_chronotable_id AND status <> 'dropped'
                          UNION ALL
                          SELECT range_start, range_end FROM thermocline.dropped_range
                          WHERE chronotable_id = p_chronotable_id
                      ) m WHERE m.range_start < step.ends AND m.range_end > step.begins) known,
             LATERAL unnest(tstzmultirange(tstzrange(step.begins, step.ends)) - coalesce(known.taken, '{}')) gap
        ORDER BY 1
    LOOP
        PERFORM lakets._create_chunk(p_chronotable_id, v_from, v_to);
        v_made := v_made + 1;
    END LOOP;
    RETURN v_made;
END
$$;

COMMENT ON FUNCTION lakets._ensure_partitions(int, int, int, timestamptz, timestamptz) IS
    'Makes the missing chunks of a ChronoTable around now and over the given range; returns how many.';
