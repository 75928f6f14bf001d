-- Everything is checked first, and nothing is made if anything speaks against it. Writers go on meanwhile: what they commit while
-- the query runs is not visible to it, and their marks are not among those that it has seen.
CREATE OR REPLACE FUNCTION lakets._create_rollup(
    p_name            text,
    p_query           text,
    p_bucket_interval interval,
    p_source_table    text,
    p_source_schema   text,
    p_depends_on      text[],
    p_path            text
) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET jit = off
AS $$
DECLARE
    v_table   text := format('public.%I', '_rollup_' || coalesce(p_name, ''));
    v_view    text := format('public.%I', '_rollup_rt_' || coalesce(p_name, ''));
    v_reasons text[] := '{}';
    v_parts   record;
    v_source  oid;
    v_groups  text[];
    v_bucket  text;
    v_id      int;
    v_new     lakets._rollup_registry;
BEGIN
    PERFORM thermocline._require_read_committed(format('make the RollUp %s', coalesce(p_name, 'without a name')));
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('thermocline rollup in the making', 0));
    v_reasons := lakets._reasons_against_name(p_name, p_bucket_interval, p_depends_on)
        || CASE WHEN coalesce(btrim(p_query, E'; \n\t'), '') = '' THEN ARRAY['it has no query'] END;
    IF cardinality(v_reasons) > 0 THEN
        PERFORM thermocline._refuse_rollup(p_name, v_reasons);
    END IF;
    BEGIN
        PERFORM set_config('search_path', p_path || coalesce(format(', %I', nullif(p_source_schema, '')), ''), true);
        EXECUTE format('CREATE VIEW %s AS %s', v_view, rtrim(p_query, E'; \n\t'));
        PERFORM set_config('search_path', 'pg_catalog, pg_temp', true);
    EXCEPTION
        WHEN OTHERS THEN
            PERFORM thermocline._refuse_rollup(p_name, ARRAY[format('its query is not understood: %s', SQLERRM)]);
    END;
    v_reasons := thermocline._reasons_against_rollup(v_view::regclass);
    IF cardinality(v_reasons) > 0 THEN
        PERFORM thermocline._refuse_rollup(p_name, v_reasons);
    END IF;

    SELECT d.refobjid INTO STRICT v_source FROM pg_rewrite r
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                    AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> r.ev_class
    WHERE r.ev_class = v_view::regclass LIMIT 1;
    SELECT * INTO v_parts FROM thermocline._query_parts(v_view::regclass);
    v_new.source_oid := v_source;
    v_new.template := v_parts.template;
    v_new.source_alias := coalesce((regexp_match(v_parts.source, '\s("(?:[^"]|"")*"|[[:alnum:]_$]+)$'))[1],
                                   (SELECT quote_ident(relname) FROM pg_class WHERE oid = v_source));
    SELECT c.id, t.attname INTO v_new.source_chronotable_id, v_new.source_time_column
    FROM lakets._chronotable_registry c
    JOIN pg_partitioned_table p ON p.partrelid = c.table_oid
    JOIN pg_attribute t ON t.attrelid = c.table_oid AND t.attnum = p.partattrs[0]
    WHERE c.table_oid = v_source;
    IF NOT FOUND THEN
        SELECT g.id, g.bucket_column INTO v_new.source_rollup_id, v_new.source_time_column
        FROM lakets._rollup_registry g WHERE g.rollup_oid = v_source;
    END IF;
    SELECT a.attname INTO v_bucket FROM pg_attribute a
    WHERE a.attrelid = v_view::regclass AND a.attnum > 0
      AND a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype)
    ORDER BY a.attnum LIMIT 1;
    v_new.bucket_column := v_bucket;
    v_new.bucket_expression := v_parts.items[(SELECT attnum FROM pg_attribute
                                              WHERE attrelid = v_view::regclass AND attname = v_bucket)];
    SELECT array_agg(g.name ORDER BY g.at) FILTER (WHERE g.name <> v_bucket),
           array_agg(g.origin ORDER BY g.at) FILTER (WHERE g.name <> v_bucket)
    INTO v_groups, v_new.key_columns FROM thermocline._group_columns(v_view::regclass) g;
    v_new.group_columns := coalesce(v_groups, '{}');
    IF v_new.key_columns IS NULL OR array_position(v_new.key_columns, NULL) IS NOT NULL THEN
        v_new.key_columns := '{}';  -- a key that is computed: buckets are recomputed whole
    END IF;
    IF cardinality(v_new.key_columns) > (SELECT count(DISTINCT k) FROM unnest(v_new.key_columns) k) OR EXISTS (
           SELECT FROM pg_attribute a LEFT JOIN pg_collation o ON o.oid = a.attcollation
           WHERE a.attrelid = v_source AND a.attname = ANY (v_new.key_columns)
             AND NOT (thermocline._is_common_type(a.atttypid) AND coalesce(o.collisdeterministic, true))) THEN
        v_new.key_columns := '{}';  -- or whose values do not come out of a mark as they went in
    END IF;
    v_new.bucket_interval := p_bucket_interval;
    v_reasons := lakets._reasons_against_bucket(
        v_source, v_new.source_time_column, v_new.source_alias, v_bucket, v_new.bucket_expression, p_bucket_interval,
        v_bucket IN (SELECT g.name FROM thermocline._group_columns(v_view::regclass) g), p_source_table, p_source_schema);
    IF cardinality(v_reasons) > 0 THEN
        PERFORM thermocline._refuse_rollup(p_name, v_reasons);
    END IF;

    EXECUTE format('CREATE TABLE %s AS SELECT * FROM %s WITH NO DATA', v_table, v_view);
    EXECUTE format('DROP VIEW %s', v_view);
    INSERT INTO lakets._rollup_registry
        (name, source_chronotable_id, rollup_table, realtime_view, bucket_interval, query_text, bucket_column,
         source_time_column, key_columns, rollup_oid, source_oid, source_rollup_id, template, source_alias,
         bucket_expression, group_columns, depends_on)
    VALUES (p_name, v_new.source_chronotable_id, v_table, v_view, p_bucket_interval, p_query, v_bucket,
            v_new.source_time_column, v_new.key_columns, v_table::regclass, v_source, v_new.source_rollup_id, v_new.template,
            v_new.source_alias, v_new.bucket_expression, v_new.group_columns,
            (SELECT coalesce(array_agg(DISTINCT g.id), '{}') FROM lakets._rollup_registry g
             WHERE g.name = ANY (p_depends_on) OR g.id = v_new.source_rollup_id))
    RETURNING id INTO v_id;
    PERFORM pg_advisory_xact_lock(hashtextextended('thermocline rollup ' || v_new.source_rollup_id, 0));  -- nobody changes it meanwhile
    PERFORM lakets._materialise(v_id);
    EXECUTE format('CREATE UNIQUE INDEX %I ON %s (%s) NULLS NOT DISTINCT', 'idx__rollup_' || p_name || '_unique', v_table,
                   (SELECT string_agg(quote_ident(c), ', ') FROM unnest(ARRAY[v_bucket] || v_new.group_columns) c));
    EXECUTE format('ANALYZE %s', v_table);
    RETURN v_id;
END
$$;

COMMENT ON FUNCTION lakets._create_rollup(text, text, interval, text, text, text[], text) IS
    'Makes a RollUp; names in its query are looked up along p_path.';
