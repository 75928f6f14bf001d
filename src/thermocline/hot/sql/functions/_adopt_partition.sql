-- A partition that somebody else has attached becomes a chunk, if it can be one. Until then an UPDATE of a synced table fails
-- at it for want of a replica identity, and its rows are in nobody's copy.
CREATE OR REPLACE FUNCTION thermocline._adopt_partition(p_chronotable_id int, p_partition oid)
RETURNS TABLE (object text, finding text, done text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    v_range constant tstzrange := thermocline._range_of(p_partition);
    v_name  text;
    v_found record;
    v_why   text;
BEGIN
    SELECT c.relkind, c.relpersistence, pg_get_expr(c.relpartbound, c.oid) AS bound, n.nspname, c.relname INTO v_found
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = p_partition;
    v_name := format('%I.%I', v_found.nspname, v_found.relname);
    SELECT y.why INTO v_why FROM (VALUES
        (v_found.relkind <> 'r', 'it is not a plain table'),
        (v_found.relpersistence <> 'p', 'it is not logged'),
        (v_range IS NULL, format('its bound is %s, not a range of time', v_found.bound)),
        (NOT isfinite(lower(v_range)) OR NOT isfinite(upper(v_range)), 'its range is not finite'),
        (EXISTS (SELECT FROM lakets._chunk_metadata m
                 WHERE m.chronotable_id = p_chronotable_id AND m.status <> 'dropped'
                   AND tstzrange(m.range_start, m.range_end) && v_range),
         'the range of a chunk that is registered, though not attached, overlaps its own'),
        (EXISTS (SELECT FROM thermocline.dropped_range d
                 WHERE d.chronotable_id = p_chronotable_id AND tstzrange(d.range_start, d.range_end) && v_range),
         'its range has left PostgreSQL')
    ) AS y (so, why) WHERE y.so LIMIT 1;
    IF v_why IS NULL THEN
        BEGIN
            EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', v_name);
            EXECUTE format(
                'CREATE OR REPLACE TRIGGER trg_thermocline_truncate AFTER TRUNCATE ON %s FOR EACH STATEMENT'
                ' EXECUTE FUNCTION thermocline._chunk_truncated()', v_name);
            EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER trg_thermocline_truncate', v_name);
            PERFORM thermocline._register_chunk(p_chronotable_id, p_partition, v_name, lower(v_range), upper(v_range));
            PERFORM thermocline._mark_range(p_chronotable_id, lower(v_range), upper(v_range), 'chunk_changed');
            RETURN QUERY VALUES (v_name, 'somebody has attached it', 'it is a chunk now');
            RETURN;
        EXCEPTION
            WHEN lock_not_available OR insufficient_privilege OR deadlock_detected THEN
                v_why := SQLERRM;
        END;
    END IF;
    RETURN QUERY VALUES (v_name, 'it is a partition, but not a chunk: ' || v_why,
                         'left alone: move its rows into the table, and drop or detach it');
END
$$;

COMMENT ON FUNCTION thermocline._adopt_partition(int, oid) IS
    'Makes a partition that somebody else attached a chunk; returns what was found and done.';
