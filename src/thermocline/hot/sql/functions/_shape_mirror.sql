-- Brings the columns of a mirror to what those of its table are, by their numbers: a column has the same number in both, so one that is renamed
-- is known by it. Numbers that the table has given up are given up here, too. Columns that came with a default have it in the rows that are
-- there. Where a type was changed, or a column that rows are found by is gone, the mirror is emptied and everything doubted.
-- The caller holds whatever keeps writers away.
CREATE OR REPLACE FUNCTION thermocline._shape_mirror(p_chronotable_id int) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET extra_float_digits = 1
SET bytea_output = 'hex'
AS $$
DECLARE
    v_synced thermocline.synced_table;
    v_shadow text;
    v_one    record;
    v_anew   boolean := false;
    v_last   int;
BEGIN
    SELECT * INTO STRICT v_synced FROM thermocline.synced_table WHERE chronotable_id = p_chronotable_id;
    v_shadow := v_synced.shadow_oid::regclass::text;
    FOR v_one IN  -- all of them give up the old names first: two may have swapped theirs
        SELECT a.attnum, a.attname, c.name IS NULL AS gone,
               c.type IS DISTINCT FROM format_type(a.atttypid, a.atttypmod) AS other, c.type, c.collated,
               EXISTS (SELECT FROM pg_depend d JOIN pg_index i ON i.indexrelid = d.objid
                       WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                         AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum) AS found_by
        FROM pg_attribute a LEFT JOIN thermocline._mirror_columns(v_synced.table_oid) c ON c.number = a.attnum
        WHERE a.attrelid = v_synced.shadow_oid AND a.attnum > 0 AND NOT a.attisdropped
          AND (c.name, c.type) IS DISTINCT FROM (a.attname::text, format_type(a.atttypid, a.atttypmod))
    LOOP
        IF NOT v_anew AND (v_one.other AND NOT v_one.gone OR v_one.gone AND v_one.found_by) THEN
            v_anew := true;
            EXECUTE format('TRUNCATE %s', v_shadow);
            EXECUTE (SELECT format('DROP INDEX %s', string_agg(i.indexrelid::regclass::text, ', ')) FROM pg_index i
                     WHERE i.indrelid = v_synced.shadow_oid);
        END IF;
        IF v_one.gone THEN
            EXECUTE format('ALTER TABLE %s DROP COLUMN %I', v_shadow, v_one.attname);
            CONTINUE;
        ELSIF v_one.other THEN
            EXECUTE format('ALTER TABLE %s ALTER COLUMN %I TYPE %s%s USING NULL', v_shadow, v_one.attname, v_one.type, v_one.collated);
        END IF;
        EXECUTE format('ALTER TABLE %s RENAME COLUMN %I TO %I', v_shadow, v_one.attname, '_lakets_' || v_one.attnum);
    END LOOP;
    FOR v_one IN
        SELECT a.attname, c.name FROM pg_attribute a JOIN thermocline._mirror_columns(v_synced.table_oid) c ON c.number = a.attnum
        WHERE a.attrelid = v_synced.shadow_oid AND NOT a.attisdropped AND a.attname <> c.name
    LOOP
        EXECUTE format('ALTER TABLE %s RENAME COLUMN %I TO %I', v_shadow, v_one.attname, v_one.name);
    END LOOP;
    SELECT coalesce(max(a.attnum), 0) INTO v_last FROM pg_attribute a WHERE a.attrelid = v_synced.shadow_oid AND a.attnum > 0;
    FOR v_one IN
        SELECT n.number, c.name, c.type, c.collated,
               (SELECT (l.attmissingval::text::text[])[1] FROM pg_attribute l
                WHERE l.attname = c.name AND l.atthasmissing AND NOT l.attisdropped
                  AND (l.attrelid = v_synced.table_oid
                       OR l.attrelid IN (SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = v_synced.table_oid))
                GROUP BY 1 ORDER BY count(*) DESC LIMIT 1) AS missing
        FROM generate_series(v_last + 1, (SELECT max(t.attnum) FROM pg_attribute t WHERE t.attrelid = v_synced.table_oid)) n (number)
        LEFT JOIN thermocline._mirror_columns(v_synced.table_oid) c ON c.number = n.number
        ORDER BY n.number
    LOOP
        EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s%s%s', v_shadow, coalesce(v_one.name, '_lakets_gone'), coalesce(v_one.type, 'int'),
                       v_one.collated, ' DEFAULT ' || quote_literal(v_one.missing));
        IF v_one.name IS NULL THEN
            EXECUTE format('ALTER TABLE %s DROP COLUMN _lakets_gone', v_shadow);
        ELSIF v_one.missing IS NOT NULL THEN
            EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT', v_shadow, v_one.name);
        END IF;
    END LOOP;
    IF NOT EXISTS (SELECT FROM pg_index WHERE indrelid = v_synced.shadow_oid) THEN
        EXECUTE (SELECT thermocline._mirror_statement('index', r.table_oid, r.time_column, v_synced.shadow_oid)
                 FROM thermocline.relation r WHERE r.id = p_chronotable_id);
    END IF;
    IF v_anew THEN
        INSERT INTO thermocline.mirror_doubt (chronotable_id, times) VALUES (p_chronotable_id, '(,)');
    END IF;
    INSERT INTO thermocline.mirror (chronotable_id, columns, names, put, take)
    SELECT p_chronotable_id, thermocline._columns_told(r.table_oid),
           (SELECT array_agg(a.attname::text ORDER BY a.attname::text COLLATE "C") FROM pg_attribute a
            WHERE a.attrelid = r.table_oid AND a.attnum > 0 AND NOT a.attisdropped),
           thermocline._mirror_statement('put', r.table_oid, r.time_column, v_synced.shadow_oid),
           thermocline._mirror_statement('take', r.table_oid, r.time_column, v_synced.shadow_oid)
    FROM thermocline.relation r WHERE r.id = p_chronotable_id
    ON CONFLICT (chronotable_id) DO UPDATE
        SET columns = excluded.columns, names = excluded.names, put = excluded.put, take = excluded.take;
END
$$;

COMMENT ON FUNCTION thermocline._shape_mirror(int) IS 'Gives a mirror the columns that its table has, and the statements that go with them.';
