-- Arms of one statement, so of one snapshot: exact at any moment, also while a refresh runs. The watermark is a scalar
-- sub-select, evaluated once, so that chunks below it are pruned. So is the span of what is pending: chunks outside of it are pruned,
-- and stored rows outside of it are not looked up among the pending keys. NULL is never one of these. IS TRUE keeps PostgreSQL from
-- going through an index to nearly all stored rows, because it takes them for a third. BETWEEN says nothing new; it
-- makes an index that begins with the key look as selective as it is, where PostgreSQL has no idea how short a bucket is.
CREATE OR REPLACE FUNCTION lakets._create_rollup_view(p_name text, p_raw_query text, p_path text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET intervalstyle = 'postgres'
AS $$
DECLARE
    v_id      int := thermocline._rollup_id(p_name);
    v_rollup  lakets._rollup_registry;
    v_time    regtype;
    v_bucket  regtype;
    v_mark    text;
    v_stored  text;
    v_keys    text;
    v_null    text;
    v_rows    text;
    v_pending text;
    v_start   text;
    v_raw     text := rtrim(p_raw_query, E'; \n\t');
BEGIN
    SELECT * INTO STRICT v_rollup FROM lakets._rollup_registry WHERE id = v_id;
    SELECT atttypid INTO STRICT v_time FROM pg_attribute
    WHERE attrelid = v_rollup.source_oid AND attname = v_rollup.source_time_column;
    SELECT atttypid INTO STRICT v_bucket FROM pg_attribute
    WHERE attrelid = v_rollup.rollup_oid AND attname = v_rollup.bucket_column;
    v_mark := format('(SELECT lakets._rollup_watermark(%L))', p_name);
    SELECT string_agg(CASE WHEN c.common THEN format('t.%I', k.target) ELSE format('to_jsonb(t.%I)', k.target) END, ', ' ORDER BY k.n),
           string_agg(CASE WHEN c.common THEN c.value ELSE format('p.keys -> %L', k.source) END, ', ' ORDER BY k.n),
           string_agg(format('t.%I IS NULL', k.target), ' OR ' ORDER BY k.n),
           string_agg(format(' AND x.%I = %s', k.source, c.value), '' ORDER BY k.n)
               || coalesce(string_agg(format(' AND x.%1$I BETWEEN %2$s AND %2$s', k.source, c.value), '' ORDER BY k.n)
                               FILTER (WHERE c.common), '')
    INTO v_stored, v_keys, v_null, v_rows
    FROM unnest(v_rollup.key_columns, v_rollup.group_columns) WITH ORDINALITY k (source, target, n)
    JOIN pg_attribute a ON a.attrelid = v_rollup.source_oid AND a.attname = k.source,
    LATERAL (SELECT thermocline._is_common_type(a.atttypid) AS common,
                    format('(p.keys ->> %L)::%s', k.source, format_type(a.atttypid, a.atttypmod)) AS value) c;
    IF v_raw !~ '\m_rollup_watermark\M' THEN
        RAISE WARNING 'the query for the view of % does not ask for lakets._rollup_watermark(%)', p_name, quote_literal(p_name)
            USING HINT = 'Rows below it are in the RollUp already and would be counted twice.';
    END IF;
    IF v_raw IS NULL THEN
        v_raw := thermocline._rollup_query(v_rollup, format(
            'SELECT * FROM %%s x WHERE x.%s >= %s', replace(quote_ident(v_rollup.source_time_column), '%', '%%'),
            replace(thermocline._in_utc(v_mark, v_time), '%', '%%')));
    END IF;
    v_start := format('t.%I%s', v_rollup.bucket_column,
                      CASE WHEN v_bucket <> 'timestamptz'::regtype THEN '::timestamp AT TIME ZONE ''UTC''' ELSE '' END);
    v_pending := format(
        'SELECT * FROM %%s x WHERE x.%1$s >= %2$s AND x.%1$s < %3$s AND x.%1$s >= %4$s AND x.%1$s <= %5$s',
        replace(quote_ident(v_rollup.source_time_column), '%', '%%'),
        thermocline._in_utc('p.bucket', v_time), thermocline._in_utc('p.bucket_end', v_time),
        thermocline._in_utc(format('(SELECT lower(lakets._rollup_pending_span(%s)))', v_id), v_time),
        thermocline._in_utc(format('(SELECT upper(lakets._rollup_pending_span(%s)))', v_id), v_time));
    PERFORM set_config('search_path', p_path, true);
    EXECUTE format(
        'CREATE OR REPLACE VIEW %1$s AS SELECT t.* FROM %2$s t WHERE (t.%3$I < %4$s) IS TRUE'
        ' AND ((SELECT isempty(lakets._rollup_hidden(%5$s))) OR NOT %6$s <@ (SELECT lakets._rollup_hidden(%5$s)))%7$s'
        ' UNION ALL %8$s%9$s UNION ALL %10$s',
        v_rollup.realtime_view, v_rollup.rollup_oid::regclass, v_rollup.bucket_column, thermocline._in_utc(v_mark, v_bucket), v_id,
        v_start,
        CASE WHEN v_keys IS NOT NULL THEN format(
            ' AND ((SELECT isempty(lakets._rollup_pending_span(%1$s))) OR %7$s < (SELECT lower(lakets._rollup_pending_span(%1$s)))'
            ' OR %7$s > (SELECT upper(lakets._rollup_pending_span(%1$s))) OR %2$s OR ((t.%3$I, %4$s) IN'
            ' (SELECT %5$s, %6$s FROM lakets._rollup_pending(%1$s) p WHERE p.keys IS NOT NULL)) IS NOT TRUE)',
            v_id, v_null, v_rollup.bucket_column, v_stored, thermocline._in_utc('p.bucket', v_bucket), v_keys, v_start) END,
        thermocline._rollup_query(v_rollup, format(
            'SELECT s.* FROM lakets._rollup_pending_whole(%1$s) p JOIN LATERAL (%2$s) s ON true', v_id, v_pending)),
        coalesce(' UNION ALL ' || thermocline._rollup_query(v_rollup, format(
            'SELECT s.* FROM lakets._rollup_pending(%1$s) p JOIN LATERAL (%2$s%3$s) s ON true WHERE p.keys IS NOT NULL',
            v_id, v_pending, replace(v_rows, '%', '%%'))), ''),
        v_raw);
    PERFORM set_config('search_path', 'pg_catalog, pg_temp', true);
EXCEPTION
    WHEN syntax_error_or_access_rule_violation OR datatype_mismatch OR undefined_table OR undefined_column THEN
        RAISE EXCEPTION 'cannot make the real-time view of %: %', p_name, SQLERRM
            USING HINT = format('The query has to select the columns of %s, of the source above lakets._rollup_watermark(%L). Without'
                                ' a query it is generated.', v_rollup.rollup_table, p_name);
END
$$;

COMMENT ON FUNCTION lakets._create_rollup_view(text, text, text) IS
    'Makes the real-time view of a RollUp; names in p_raw_query are looked up along p_path.';
