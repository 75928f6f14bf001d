-- A query over the rows from p_from on, or the query as it is when it cannot be proven that its buckets from there on come out the
-- same. Proven is an aggregate of one table by time_bucket or date_bin of the time column itself. The condition begins with the
-- bucket that p_from falls into, so no bucket is computed from a part of its rows; PostgreSQL has to accept what comes out.
CREATE OR REPLACE FUNCTION thermocline._add_time_predicate(
    p_query       text,
    p_time_column text,
    p_from        timestamptz,
    p_path        text
) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
AS $$
DECLARE
    v_view   oid;
    v_source oid;
    v_alias  text;
    v_type   regtype;
    v_bucket text;
    v_start  timestamptz;
    v_parts  record;
    v_query  text := p_query;
BEGIN
    v_view := thermocline._as_view(p_query, p_path);
    SELECT d.refobjid, a.atttypid INTO v_source, v_type
    FROM pg_rewrite r
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                    AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> r.ev_class
    JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attname = p_time_column AND a.attnum > 0
                       AND a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype)
    WHERE r.ev_class = v_view LIMIT 1;
    SELECT * INTO v_parts FROM thermocline._query_parts(v_view);
    SELECT v_parts.items[a.attnum] INTO v_bucket
    FROM pg_attribute a JOIN thermocline._group_columns(v_view) g ON g.name = a.attname
    WHERE a.attrelid = v_view AND a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype)
    ORDER BY a.attnum LIMIT 1;
    v_alias := coalesce((regexp_match(v_parts.source, '\s("(?:[^"]|"")*"|[[:alnum:]_$]+)$'))[1],
                        (SELECT quote_ident(relname) FROM pg_class WHERE oid = v_source));
    IF v_source IS NOT NULL AND isfinite(p_from) AND cardinality(thermocline._reasons_against_rollup(v_view)) = 0
       AND v_parts.source !~ '^ONLY\s' AND v_bucket ~ '^(lakets\.time_bucket|date_bin)\(' THEN
        SELECT b.bucket INTO v_start
        FROM thermocline._buckets_of(v_bucket, v_alias, p_time_column, v_type, ARRAY[p_from]) b,
             thermocline._buckets_of(v_bucket, v_alias, p_time_column, v_type, ARRAY[b.bucket]) again
        WHERE b.bucket <= p_from AND again.bucket = b.bucket;
    END IF;
    IF v_start IS NOT NULL THEN
        v_query := replace(v_parts.template, '/*source*/', format(
            '(SELECT * FROM %s x WHERE x.%I >= %s) AS %s', v_source::regclass, p_time_column,
            thermocline._in_utc(format('timestamptz %L', v_start), v_type), v_alias));
        EXECUTE 'EXPLAIN ' || v_query;
    END IF;
    DROP VIEW pg_temp.thermocline_query;
    RETURN v_query;
EXCEPTION
    WHEN OTHERS THEN
        RETURN p_query;
END
$$;

COMMENT ON FUNCTION thermocline._add_time_predicate(text, text, timestamptz, text) IS
    'A query over the rows from p_from on, or as it is; names in it are looked up along p_path.';
