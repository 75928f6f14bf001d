-- Compares what a RollUp has stored with a full aggregation of its source, in one statement and so as of one moment. Left out are
-- buckets that the next refresh computes anyway and those whose rows have left PostgreSQL. Sums of floating-point numbers depend on
-- the order of the rows, so these may differ by a billionth.
CREATE OR REPLACE FUNCTION lakets.check_rollup(p_name text, p_from timestamptz DEFAULT NULL, p_to timestamptz DEFAULT NULL)
RETURNS TABLE (bucket timestamptz, keys jsonb, difference text, stored jsonb, computed jsonb)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET jit = off
AS $$
DECLARE
    v_id     int := thermocline._rollup_id(p_name);
    v_rollup lakets._rollup_registry;
    v_time   regtype;
    v_from   timestamptz;
    v_to     timestamptz;
    v_wrong  text;
    v_groups text;
    v_keys   text;
    v_mark   text := format('(SELECT lakets._rollup_watermark(%L))', p_name);
BEGIN
    SELECT * INTO STRICT v_rollup FROM lakets._rollup_registry WHERE id = v_id;
    PERFORM thermocline._require_rollup_table(v_rollup);
    IF p_to <= p_from OR NOT isfinite(p_from) OR NOT isfinite(p_to) THEN
        RAISE EXCEPTION 'cannot check % from % to %', p_name, p_from, p_to USING HINT = 'Give two moments, the earlier one first.';
    END IF;
    v_from := (SELECT b.bucket FROM thermocline._buckets_of_rollup(v_rollup, ARRAY[p_from]) b WHERE p_from IS NOT NULL);
    v_to := (SELECT upper(thermocline._buckets_over(v_rollup, tstzmultirange(tstzrange(p_to - interval '1 microsecond', p_to))))
             WHERE p_to < '290000-01-01');
    SELECT atttypid INTO STRICT v_time FROM pg_attribute
    WHERE attrelid = v_rollup.source_oid AND attname = v_rollup.source_time_column;
    SELECT string_agg(
               CASE WHEN a.atttypid IN ('float8'::regtype, 'float4'::regtype) THEN
                   format('(s).%1$I IS DISTINCT FROM (c).%1$I AND coalesce(NOT (abs((s).%1$I - (c).%1$I) < ''Infinity'''
                          ' AND abs((s).%1$I - (c).%1$I) <= 1e-9 * greatest(abs((s).%1$I), abs((c).%1$I))), true)', a.attname)
               ELSE format('(s).%1$I::text IS DISTINCT FROM (c).%1$I::text', a.attname) END, ' OR ')
    INTO v_wrong
    FROM pg_attribute a
    WHERE a.attrelid = v_rollup.rollup_oid AND a.attnum > 0 AND NOT a.attisdropped
      AND a.attname <> ALL (v_rollup.group_columns || v_rollup.bucket_column);
    SELECT string_agg(format('(x).%I', g.name), ', ' ORDER BY g.n),
           string_agg(format('%L, coalesce((s).%2$I, (c).%2$I)', g.name, g.name), ', ' ORDER BY g.n) FILTER (WHERE g.n > 1)
    INTO v_groups, v_keys
    FROM unnest(ARRAY[v_rollup.bucket_column] || v_rollup.group_columns) WITH ORDINALITY g (name, n);
    RETURN QUERY EXECUTE format(
        'WITH skipped AS MATERIALIZED ('
        '  SELECT (SELECT thermocline._frozen_buckets(g) FROM lakets._rollup_registry g WHERE g.id = %1$s) + coalesce(range_agg(tstzrange(p.bucket, p.bucket_end)), ''{}'') AS times'
        '  FROM lakets._rollup_pending(%1$s) p'
        '), both_sides AS ('
        '  SELECT true AS is_stored, ROW(t.*)::%2$s AS x FROM %2$s t'
        '  WHERE t.%3$I::timestamptz < %4$s AND t.%3$I::timestamptz >= $1 AND t.%3$I::timestamptz < $2'
        '    AND NOT t.%3$I::timestamptz <@ (SELECT times FROM skipped)'
        '  UNION ALL SELECT false, ROW(q.*)::%2$s FROM (%5$s) q'
        '), paired AS ('
        '  SELECT (array_agg(x) FILTER (WHERE is_stored))[1] AS s, (array_agg(x) FILTER (WHERE NOT is_stored))[1] AS c,'
        '         bool_or(is_stored) AS is_there, bool_or(NOT is_stored) AS is_wanted'
        '  FROM both_sides GROUP BY %6$s'
        ')'
        ' SELECT coalesce((s).%3$I, (c).%3$I)::timestamptz, jsonb_build_object(%7$s),'
        '        CASE WHEN NOT is_there THEN ''missing'' WHEN NOT is_wanted THEN ''extra'' ELSE ''differs'' END,'
        '        CASE WHEN is_there THEN to_jsonb(s) END, CASE WHEN is_wanted THEN to_jsonb(c) END'
        ' FROM paired WHERE NOT is_there OR NOT is_wanted OR (%8$s) ORDER BY 1, 2',
        v_id, v_rollup.rollup_oid::regclass, v_rollup.bucket_column, v_mark,
        thermocline._rollup_query(v_rollup, format(
            'SELECT * FROM %%s x WHERE x.%1$s < %2$s AND x.%1$s >= $1::%3$s AND x.%1$s < $2::%3$s'
            ' AND NOT x.%1$s::timestamptz <@ (SELECT times FROM skipped)',
            replace(quote_ident(v_rollup.source_time_column), '%', '%%'),
            replace(thermocline._in_utc(v_mark, v_time), '%', '%%'), v_time)),
        v_groups, coalesce(v_keys, ''), coalesce(v_wrong, 'false'))
    USING coalesce(v_from, '-infinity'), coalesce(v_to, 'infinity');
END
$$;

COMMENT ON FUNCTION lakets.check_rollup(text, timestamptz, timestamptz) IS
    'Compares a RollUp with a full aggregation of its source, bucket by bucket, and returns where they differ.';
