-- Gives every range that has left PostgreSQL its trap: a partition that refuses late rows with a clear error, or of a table that wants
-- them in the lake keeps them until it has them. Made apart and then attached, which waits for no reader and no writer. With p_merge one
-- trap covers neighbouring ranges; that drops the old traps, so the caller must hold the table's lock. One with rows is never dropped.
CREATE OR REPLACE FUNCTION thermocline._set_traps(p_chronotable_id int, p_merge boolean) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET lock_timeout = '400ms'
AS $$
DECLARE
    v_table lakets._chronotable_registry;
    v_type  text;
    v_trap  text;
    v_old   oid;
    v_made  int := 0;
    v_range record;
BEGIN
    SELECT * INTO STRICT v_table FROM lakets._chronotable_registry WHERE id = p_chronotable_id;
    SELECT format_type(a.atttypid, NULL) INTO STRICT v_type
    FROM pg_attribute a WHERE a.attrelid = v_table.table_oid AND a.attname = v_table.time_column;
    FOR v_range IN SELECT * FROM thermocline._trap_islands(p_chronotable_id, p_merge)
    LOOP
        BEGIN
            FOREACH v_old IN ARRAY coalesce(v_range.traps, '{}') LOOP
                IF EXISTS (SELECT FROM pg_inherits WHERE inhrelid = v_old AND inhparent = v_table.table_oid) THEN
                    PERFORM thermocline._lock(v_old, 'ACCESS EXCLUSIVE');
                    IF pg_relation_size(v_old) > 0 THEN
                        RAISE EXCEPTION USING ERRCODE = 'object_in_use';
                    END IF;
                    IF EXISTS (SELECT FROM pg_constraint WHERE confrelid = v_old AND contype = 'f') THEN
                        EXECUTE format('ALTER TABLE %s DETACH PARTITION %s', v_table.table_oid::regclass, v_old::regclass);
                    END IF;
                    EXECUTE format('DROP TABLE %s', v_old::regclass);
                END IF;
            END LOOP;
            v_trap := format('%I.%I', v_table.schema_name,
                             lakets._chunk_name('_trap_' || v_table.table_name, v_range.range_start));
            EXECUTE format(
                'CREATE TABLE %s (LIKE %s INCLUDING ALL EXCLUDING IDENTITY EXCLUDING INDEXES EXCLUDING STATISTICS)',
                v_trap, v_table.table_oid::regclass);
            PERFORM thermocline._revoke_defaults(v_trap::regclass);
            EXECUTE format('ALTER TABLE %s OWNER TO %I', v_trap,
                           (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = v_table.table_oid));
            EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', v_trap);
            IF v_range.takes_rows THEN
                PERFORM thermocline._open_trap(v_trap::regclass);
            ELSE
                PERFORM thermocline._close_trap(v_trap::regclass, v_range.range_start, v_range.range_end, bool_and(d.in_lake))
                FROM thermocline.dropped_range d
                WHERE d.chronotable_id = p_chronotable_id
                  AND d.range_start >= v_range.range_start AND d.range_end <= v_range.range_end;
            END IF;
            EXECUTE format(
                'ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)', v_table.table_oid::regclass, v_trap,
                lakets._bound_of(v_range.range_start, v_type), lakets._bound_of(v_range.range_end, v_type));
            UPDATE thermocline.dropped_range SET trap_oid = v_trap::regclass::oid
            WHERE chronotable_id = p_chronotable_id
              AND range_start >= v_range.range_start AND range_end <= v_range.range_end;
            v_made := v_made + 1;
        EXCEPTION
            WHEN object_in_use THEN  -- late rows came just now
                NULL;
            WHEN OTHERS THEN  -- a drop does not fail for its trap: PostgreSQL refuses the rows too, in other words
                RAISE WARNING 'late rows of % from % to % will meet no trap for now: %',
                    v_table.table_oid::regclass, v_range.range_start, v_range.range_end, SQLERRM;
        END;
    END LOOP;
    RETURN v_made;
END
$$;

COMMENT ON FUNCTION thermocline._set_traps(int, boolean) IS
    'Attaches a partition for late rows, to refuse or to keep them, for each dropped range that has none; returns how many.';
