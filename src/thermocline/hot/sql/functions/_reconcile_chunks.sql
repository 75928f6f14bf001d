-- The chunks of one ChronoTable against its partitions, by oid. The caller holds the table's row.
CREATE OR REPLACE FUNCTION thermocline._reconcile_chunks(p_chronotable_id int)
RETURNS TABLE (object text, finding text, done text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    v_table lakets._chronotable_registry;
    v_type  text;
    v_one   record;
BEGIN
    SELECT * INTO STRICT v_table FROM lakets._chronotable_registry r WHERE r.id = p_chronotable_id;
    SELECT format_type(a.atttypid, NULL) INTO STRICT v_type
    FROM pg_attribute a WHERE a.attrelid = v_table.table_oid AND a.attname = v_table.time_column;
    -- Chunks may have swapped their names: all of them give up the old ones first.
    UPDATE lakets._chunk_metadata m SET chunk_name = format('%s (%s)', m.chunk_name, m.chunk_oid)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE m.chronotable_id = p_chronotable_id AND m.status <> 'dropped' AND c.oid = m.chunk_oid
      AND m.chunk_name <> format('%I.%I', n.nspname, c.relname);
    FOR v_one IN
        SELECT m.id, m.chunk_name, m.chunk_oid, m.range_start, m.range_end, c.oid IS NULL AS gone,
               CASE WHEN c.oid IS NOT NULL THEN format('%I.%I', n.nspname, c.relname) END AS name,
               i.inhparent IS NOT DISTINCT FROM v_table.table_oid AS attached,
               pg_get_expr(c.relpartbound, c.oid) AS bound,
               format('FOR VALUES FROM (%L) TO (%L)', lakets._bound_of(m.range_start, v_type),
                      lakets._bound_of(m.range_end, v_type)) AS bound_before,
               c.relpersistence, i.inhdetachpending,
               EXISTS (SELECT FROM thermocline.detaching d WHERE d.chunk_oid = m.chunk_oid) AS at_it
        FROM lakets._chunk_metadata m
        LEFT JOIN pg_class c ON c.oid = m.chunk_oid
        LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
        LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
        WHERE m.chronotable_id = p_chronotable_id AND m.status <> 'dropped'
        ORDER BY m.range_start
    LOOP
        IF v_one.gone THEN
            RETURN QUERY SELECT * FROM thermocline._forget_chunk(v_one.id);
            CONTINUE;
        END IF;
        IF v_one.name <> v_one.chunk_name THEN
            UPDATE lakets._chunk_metadata m SET chunk_name = v_one.name WHERE m.id = v_one.id;
            RETURN QUERY VALUES (v_one.name, format('it was %s before', regexp_replace(v_one.chunk_name, ' \(\d+\)$', '')),
                                 'registered under its new name');
        END IF;
        IF v_one.at_it THEN
            CONTINUE;  -- a worker has detached it and will drop it or attach it again
        END IF;
        IF NOT v_one.attached OR v_one.inhdetachpending OR v_one.relpersistence <> 'p' THEN
            DELETE FROM thermocline.chunk_copy k WHERE k.chunk_oid = v_one.chunk_oid;  -- what is written to it does not stream
        END IF;
        IF v_one.relpersistence <> 'p' THEN
            RETURN QUERY VALUES (v_one.name, 'it is not logged, so nothing of it reaches the lake',
                                 format('left alone: ALTER TABLE %s SET LOGGED', v_one.name));
        END IF;
        IF v_one.inhdetachpending THEN
            RETURN QUERY VALUES (v_one.name, 'somebody has begun to detach it, and nobody sees its rows',
                                 format('left alone: ALTER TABLE %s DETACH PARTITION %s FINALIZE, then attach it again or drop it',
                                        v_table.table_oid::regclass, v_one.name));
        ELSIF NOT v_one.attached THEN
            RETURN QUERY VALUES (v_one.name, 'it is a chunk, and somebody has detached it',
                                 format('left alone: attach it again (ALTER TABLE %s ATTACH PARTITION %s %s), or drop it',
                                        v_table.table_oid::regclass, v_one.name, v_one.bound_before));
        ELSIF v_one.bound <> v_one.bound_before THEN
            RETURN QUERY VALUES (v_one.name, format('its range is another one than before: %s, not %s', v_one.bound,
                                                    v_one.bound_before),
                                 'left alone: detach it and attach it again for its old range');
        END IF;
    END LOOP;
    RETURN QUERY
    SELECT a.* FROM thermocline._foreign_partitions(v_table.table_oid) f,
                    thermocline._adopt_partition(p_chronotable_id, f.partition) a;
    RETURN QUERY SELECT * FROM thermocline._reconcile_traps(p_chronotable_id);
    RETURN QUERY SELECT * FROM thermocline._reconcile_mirror(p_chronotable_id);
    UPDATE lakets._chunk_metadata m
    SET row_count = coalesce(thermocline._estimated_rows(c.oid, c.reltuples), m.row_count),
        size_bytes = pg_total_relation_size(c.oid),
        last_modified_at = CASE WHEN EXISTS (SELECT FROM thermocline.synced_table s  -- of those the feed knows it more exactly
                                             WHERE s.chronotable_id = p_chronotable_id AND s.status <> 'TERMINATED')
                                THEN m.last_modified_at ELSE clock_timestamp() END
    FROM pg_class c
    WHERE m.chronotable_id = p_chronotable_id AND m.status <> 'dropped' AND c.oid = m.chunk_oid
      AND (thermocline._estimated_rows(c.oid, c.reltuples) <> coalesce(m.row_count, -1)
           OR pg_total_relation_size(c.oid) IS DISTINCT FROM m.size_bytes);
END
$$;

COMMENT ON FUNCTION thermocline._reconcile_chunks(int) IS
    'Brings the registered chunks of a ChronoTable and its partitions into agreement; returns what it found and did.';
