-- Everything that speaks against making a table a ChronoTable, in words; empty when nothing does.
CREATE OR REPLACE FUNCTION lakets._reasons_against(
    p_table          oid,
    p_schema_name    text,
    p_table_name     text,
    p_time_column    text,
    p_chunk_interval interval
) RETURNS text[]
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $$
DECLARE
    v_class   pg_class;
    v_column  pg_attribute;
    v_type    text;
    v_reasons text[] := '{}';
    v_against text[];
    v_bad     bigint;
    v_name    text;
    v_told    text;
BEGIN
    IF p_table IS NULL THEN
        RETURN ARRAY[format('there is no table %I.%I', p_schema_name, p_table_name)
                     || CASE WHEN p_table_name LIKE '%.%' THEN '; the schema is an argument of its own' ELSE '' END];
    END IF;
    SELECT * INTO STRICT v_class FROM pg_class WHERE oid = p_table;
    IF v_class.relkind <> 'r' THEN
        RETURN ARRAY[CASE v_class.relkind WHEN 'p' THEN CASE WHEN EXISTS (SELECT FROM lakets._chronotable_registry r WHERE r.table_oid = p_table)
                                                        THEN 'it is one already; p_if_not_exists => true leaves it as it is'
                                                        ELSE 'it is partitioned already' END
                                          WHEN 'v' THEN 'it is a view'
                                          WHEN 'm' THEN 'it is a materialised view'
                                          WHEN 'f' THEN 'it is a foreign table'
                                          ELSE 'it is not a plain table' END];
    END IF;
    IF v_class.relpersistence <> 'p' THEN
        v_reasons := v_reasons || format('it is %s', CASE v_class.relpersistence WHEN 't' THEN 'temporary' ELSE 'unlogged' END);
    END IF;
    IF v_class.relispartition OR EXISTS (SELECT FROM pg_inherits WHERE inhrelid = p_table OR inhparent = p_table) THEN
        v_reasons := v_reasons || text 'it inherits or is inherited from';
    END IF;

    SELECT * INTO v_column FROM pg_attribute
    WHERE attrelid = p_table AND attname = p_time_column AND attnum > 0 AND NOT attisdropped;
    v_against := lakets._reasons_against_interval(p_chunk_interval, v_column.atttypid);
    IF v_against = '{}' THEN
        v_against := array_remove(ARRAY[thermocline._reason_against_schedule(p_chunk_interval, NULL)], NULL);
    END IF;
    v_reasons := v_reasons || v_against;
    IF v_column.attnum IS NULL THEN
        v_reasons := v_reasons || format('it has no column %I', p_time_column);
    ELSE
        v_type := format_type(v_column.atttypid, NULL);
        IF v_type NOT IN ('timestamp with time zone', 'timestamp without time zone', 'date') THEN
            v_reasons := v_reasons || format('its column %I is of type %s, not timestamptz, timestamp or date',
                                             p_time_column, v_type);
        ELSE
            EXECUTE format('SELECT count(*) FROM %s WHERE %2$I IS NULL OR NOT isfinite(%2$I)',
                           p_table::regclass, p_time_column) INTO v_bad;
            IF v_bad > 0 THEN
                v_reasons := v_reasons || format('%s of its rows have no finite %I', v_bad, p_time_column);
            ELSIF v_against = '{}' THEN
                v_reasons := v_reasons || thermocline._names_taken(p_table, p_schema_name, p_table_name, p_time_column, p_chunk_interval);
            END IF;
        END IF;
        SELECT v_reasons || coalesce(array_agg(
                   format('its %s %I does not contain the time column %I',
                          CASE k.contype WHEN 'p' THEN 'primary key' ELSE 'unique constraint' END, k.conname, p_time_column)
                   ORDER BY k.conname), '{}')
        INTO v_reasons
        FROM pg_constraint k
        WHERE k.conrelid = p_table AND k.contype IN ('p', 'u') AND v_column.attnum <> ALL (k.conkey);
        SELECT v_reasons || coalesce(array_agg(
                   format('its unique index %s does not contain the time column %I', i.indexrelid::regclass, p_time_column)
                   ORDER BY i.indexrelid::regclass::text), '{}')
        INTO v_reasons
        FROM pg_index i
        WHERE i.indrelid = p_table AND i.indisunique AND v_column.attnum <> ALL ((i.indkey::int2[])[0:i.indnkeyatts - 1])
          AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid);
    END IF;

    -- A check that was never held against the rows is kept when all of them satisfy it, and then is as good as any other.
    FOR v_name, v_told IN
        SELECT k.conname, CASE k.contype WHEN 'c' THEN pg_get_expr(k.conbin, k.conrelid) ELSE format('%I IS NOT NULL', a.attname) END
        FROM pg_constraint k LEFT JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
        WHERE k.conrelid = p_table AND k.contype IN ('c', 'n') AND NOT k.convalidated
          AND to_jsonb(k) ->> 'conenforced' IS DISTINCT FROM 'false'  -- of PostgreSQL 18
        ORDER BY k.conname
    LOOP
        EXECUTE format('SELECT count(*) FROM %s WHERE NOT (%s)', p_table::regclass, v_told) INTO v_bad;
        IF v_bad > 0 THEN
            v_reasons := v_reasons || format('%s of its rows do not satisfy the constraint %I, which is NOT VALID', v_bad, v_name);
        END IF;
    END LOOP;

    -- What the conversion cannot carry over yet is refused, never dropped in silence.
    SELECT v_reasons || coalesce(array_agg(reason ORDER BY reason), '{}') INTO v_reasons
    FROM (
        SELECT format('%s refers to it with the foreign key %I, which would keep every chunk', conrelid::regclass, conname) AS reason
        FROM pg_constraint WHERE confrelid = p_table AND contype = 'f' AND conrelid <> p_table
        UNION ALL
        SELECT format('it has the exclusion constraint %I', conname)
        FROM pg_constraint WHERE conrelid = p_table AND contype = 'x'
        UNION ALL
        SELECT format('it has the trigger %I for each row with transition tables, which partitioned tables cannot have', tgname)
        FROM pg_trigger
        WHERE tgrelid = p_table AND NOT tgisinternal AND tgtype & 1 = 1 AND (tgoldtable IS NOT NULL OR tgnewtable IS NOT NULL)
        UNION ALL
        SELECT format('it has the rule %I', rulename) FROM pg_rewrite WHERE ev_class = p_table
        UNION ALL
        SELECT format('it is in the publication %I', p.pubname)
        FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE r.prrelid = p_table
        UNION ALL
        SELECT format('the materialised view %s depends on it', f.view_oid::regclass)
        FROM lakets._views_of(p_table) f WHERE f.kind = 'm'
        UNION ALL
        SELECT format('the view %s depends on it and has the rule %I', f.view_oid::regclass, w.rulename)
        FROM lakets._views_of(p_table) f JOIN pg_rewrite w ON w.ev_class = f.view_oid AND w.rulename <> '_RETURN'
        WHERE f.kind = 'v'
        UNION ALL
        SELECT DISTINCT format('the %s depends on it or on a view of it', pg_describe_object(d.classid, d.objid, 0))
        FROM (SELECT p_table AS oid UNION SELECT view_oid FROM lakets._views_of(p_table)) r
        JOIN pg_type y ON y.typrelid = r.oid
        JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = r.oid AND d.classid = 'pg_proc'::regclass
                         OR d.refclassid = 'pg_type'::regclass AND d.refobjid IN (y.oid, y.typarray) AND d.deptype = 'n'
                            AND d.classid NOT IN ('pg_class'::regclass, 'pg_rewrite'::regclass)
        UNION ALL
        SELECT format('its constraint %I is NO INHERIT, which partitioned tables cannot have', conname)
        FROM pg_constraint WHERE conrelid = p_table AND contype IN ('c', 'n') AND connoinherit
        UNION ALL
        SELECT DISTINCT format('%s has the column %I of its row type', a.attrelid::regclass, a.attname)
        FROM pg_type y JOIN pg_attribute a ON a.atttypid IN (y.oid, y.typarray) AND a.attrelid <> p_table
        WHERE y.typrelid = p_table AND NOT a.attisdropped
          AND a.attrelid NOT IN (SELECT view_oid FROM lakets._views_of(p_table))
        UNION ALL
        SELECT format('it is in the tablespace %I', (SELECT spcname FROM pg_tablespace WHERE oid = v_class.reltablespace))
        WHERE v_class.reltablespace <> 0
        UNION ALL
        SELECT format('its index %s is in the tablespace %I', i.indexrelid::regclass, s.spcname)
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_tablespace s ON s.oid = c.reltablespace
        WHERE i.indrelid = p_table
        UNION ALL
        SELECT format('it is stored by the access method %I, and chunks would be by %I', m.amname, d.amname)
        FROM pg_am m, pg_am d
        WHERE m.oid = v_class.relam AND d.amname = current_setting('default_table_access_method') AND d.oid <> m.oid
    ) found;
    RETURN v_reasons;
END
$$;

COMMENT ON FUNCTION lakets._reasons_against(oid, text, text, text, interval) IS
    'What speaks against making a table a ChronoTable; empty when nothing does.';
