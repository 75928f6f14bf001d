-- Keeps the newest row of each key of a ChronoTable in a small table beside it, filled from what is there and kept by
-- triggers. Writers wait until it is filled. The types of the columns must be PostgreSQL's own, or enums: the cache is kept
-- with its owner's rights, and a type of somebody else's could bring code along. Chunks that are dropped leave the cache
-- as it is: the newest value of a silent key stays known.
CREATE OR REPLACE FUNCTION lakets.enable_lvc(
    p_table_name    text,
    p_key_columns   text[],
    p_value_columns text[],
    p_schema_name   text DEFAULT 'public'
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET row_security = off
AS $$
DECLARE
    v_table   lakets._chronotable_registry;
    v_name    text;
    v_bad     text;
    v_cache   lakets._lvc_registry;
    v_grantee text;
BEGIN
    PERFORM thermocline._require_read_committed(format('cache %I.%I', p_schema_name, p_table_name));
    PERFORM lakets._table_oid(p_table_name, p_schema_name);
    SELECT * INTO STRICT v_table FROM lakets._chronotable_registry
    WHERE id = lakets._chronotable_id(p_table_name, p_schema_name) FOR UPDATE;
    IF EXISTS (SELECT FROM lakets._lvc_registry WHERE chronotable_id = v_table.id) THEN
        RAISE EXCEPTION 'the last-value cache of %.% is enabled already', quote_ident(p_schema_name), quote_ident(p_table_name)
            USING HINT = 'lakets.disable_lvc removes it; then it can be enabled with other columns.';
    END IF;
    IF coalesce(cardinality(p_key_columns), 0) = 0 OR p_value_columns IS NULL THEN
        RAISE EXCEPTION 'cannot cache %.%: it needs key columns and value columns', quote_ident(p_schema_name),
            quote_ident(p_table_name) USING HINT = 'Keys name a series, as {sensor}; values are what is kept of its newest row.';
    END IF;
    SELECT string_agg(what, '; ' ORDER BY what) INTO v_bad
    FROM (
        SELECT CASE WHEN u.name IS NULL THEN 'a column name is NULL'
                    WHEN u.name = 'last_updated' THEN 'the cache has a column last_updated of its own'
                    WHEN count(*) > 1 THEN format('the column %I is named twice', u.name)
                    WHEN a.attname IS NULL THEN format('it has no column %I', u.name)
                    WHEN t.typtype <> 'e' AND (t.typnamespace <> 'pg_catalog'::regnamespace OR t.typtype <> 'b')
                    THEN format('its column %I is of type %s, which is not PostgreSQL''s own', u.name,
                                format_type(a.atttypid, a.atttypmod)) END AS what
        FROM unnest(p_key_columns || p_value_columns) u (name)
        LEFT JOIN pg_attribute a ON a.attrelid = v_table.table_oid AND a.attname = u.name AND a.attnum > 0
                                 AND NOT a.attisdropped
        LEFT JOIN pg_type t ON t.oid = a.atttypid
        GROUP BY u.name, a.attname, a.atttypid, a.atttypmod, t.typtype, t.typnamespace
    ) found;
    IF v_bad IS NOT NULL THEN
        RAISE EXCEPTION 'cannot cache %.%: %', quote_ident(p_schema_name), quote_ident(p_table_name), v_bad
            USING HINT = 'Nothing was changed. Name columns of the table, each once.';
    END IF;
    IF (SELECT relrowsecurity FROM pg_class WHERE oid = v_table.table_oid) THEN
        RAISE EXCEPTION 'cannot cache %.%: it has row security, which a cache would go round', quote_ident(p_schema_name),
            quote_ident(p_table_name) USING HINT = 'Ask lakets.last of the table instead.';
    END IF;
    v_name := lakets._short_name('_lvc_', p_table_name, '');
    IF to_regclass(format('%I.%I', p_schema_name, v_name)) IS NOT NULL THEN
        RAISE EXCEPTION 'cannot cache %.%: %.% is there already', quote_ident(p_schema_name), quote_ident(p_table_name),
            quote_ident(p_schema_name), quote_ident(v_name) USING HINT = 'Rename or drop that table.';
    END IF;

    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', v_table.table_oid::regclass);
    EXECUTE format(
        'CREATE TABLE %I.%I (%s, last_updated timestamptz NOT NULL, PRIMARY KEY (%s))', p_schema_name, v_name,
        (SELECT string_agg(format('%I %s%s', u.name, format_type(a.atttypid, a.atttypmod), collated.clause), ', ' ORDER BY u.n)
         FROM unnest(p_key_columns || p_value_columns) WITH ORDINALITY u (name, n)
         JOIN pg_attribute a ON a.attrelid = v_table.table_oid AND a.attname = u.name,
         LATERAL (SELECT coalesce((SELECT format(' COLLATE %I.%I', s.nspname, l.collname)
                                   FROM pg_collation l JOIN pg_namespace s ON s.oid = l.collnamespace
                                   WHERE l.oid = a.attcollation), '') AS clause) collated),
        (SELECT string_agg(quote_ident(k), ', ' ORDER BY n) FROM unnest(p_key_columns) WITH ORDINALITY u (k, n)));
    INSERT INTO lakets._lvc_registry (chronotable_id, cache_table_name, key_columns, value_columns, cache_oid)
    VALUES (v_table.id, format('%I.%I', p_schema_name, v_name), p_key_columns, p_value_columns,
            format('%I.%I', p_schema_name, v_name)::regclass)
    RETURNING * INTO v_cache;
    PERFORM thermocline._revoke_defaults(v_cache.cache_oid);
    FOR v_grantee IN
        SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END
        FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a
        WHERE c.oid = v_table.table_oid AND a.privilege_type = 'SELECT'
    LOOP
        EXECUTE format('GRANT SELECT ON %s TO %s', v_cache.cache_oid::regclass, v_grantee);
    END LOOP;
    EXECUTE lakets._lvc_statement(v_cache.id, 'latest', v_table.table_oid::regclass::text);
    PERFORM thermocline._watch(v_table.table_oid, 'trg_lakets_lvc', 'lakets._lvc_changed()');
    PERFORM thermocline._watch(i.inhrelid, 'trg_lakets_lvc', 'lakets._lvc_changed()')
    FROM pg_inherits i WHERE i.inhparent = v_table.table_oid;
END
$$;

COMMENT ON FUNCTION lakets.enable_lvc(text, text[], text[], text) IS
    'Keeps the newest row of each key of a ChronoTable in the table _lvc_<table>: keys, values and its time, last_updated. '
    'Of rows with the same time the first stays. Rows without a key are not kept. Writers of one key wait for each other until '
    'they commit, and transactions that write the same keys one after another in different orders can deadlock: write them '
    'in one statement, or in one order.';
