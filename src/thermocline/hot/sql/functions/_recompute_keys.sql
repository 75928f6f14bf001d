-- Computes single keys of buckets anew, a thousand at a time. p_dirty is a list of objects: bucket, bucket_end and the keys. Only
-- chunks between the first and the last of them are planned for. BETWEEN says nothing new; it makes an index that begins with the key
-- look as selective as it is, where PostgreSQL has no idea how short a bucket is.
CREATE OR REPLACE FUNCTION thermocline._recompute_keys(p_rollup lakets._rollup_registry, p_dirty jsonb[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET jit = off
AS $$
DECLARE
    c_batch   constant int := 1000;
    v_time    regtype;
    v_bucket  regtype;
    v_listed  text;
    v_of_rows text;
    v_of_sums text;
    v_some    jsonb;
    v_first   timestamptz;
    v_last    timestamptz;
BEGIN
    SELECT atttypid INTO STRICT v_time FROM pg_attribute
    WHERE attrelid = p_rollup.source_oid AND attname = p_rollup.source_time_column;
    SELECT atttypid INTO STRICT v_bucket FROM pg_attribute
    WHERE attrelid = p_rollup.rollup_oid AND attname = p_rollup.bucket_column;
    SELECT string_agg(format('%I %s', k.source, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY k.n),
           string_agg(format('x.%1$I = d.%1$I', k.source), ' AND ' ORDER BY k.n)
               || coalesce(string_agg(format(' AND x.%1$I BETWEEN d.%1$I AND d.%1$I', k.source), '' ORDER BY k.n)
                               FILTER (WHERE thermocline._is_common_type(a.atttypid)), ''),
           string_agg(format('t.%I = d.%I', k.target, k.source), ' AND ' ORDER BY k.n)
    INTO STRICT v_listed, v_of_rows, v_of_sums
    FROM unnest(p_rollup.key_columns, p_rollup.group_columns) WITH ORDINALITY k (source, target, n)
    JOIN pg_attribute a ON a.attrelid = p_rollup.source_oid AND a.attname = k.source;
    v_listed := format('jsonb_to_recordset($1) AS d (thermocline_from timestamptz, thermocline_to timestamptz, %s)', v_listed);
    FOR v_some, v_first, v_last IN
        SELECT jsonb_agg(r.one), min((r.one ->> 'thermocline_from')::timestamptz), max((r.one ->> 'thermocline_to')::timestamptz)
        FROM unnest(p_dirty) WITH ORDINALITY r (one, n) GROUP BY (r.n - 1) / c_batch
    LOOP
        EXECUTE format('DELETE FROM %s t USING %s WHERE t.%I = d.thermocline_from::%s AND %s',
                       p_rollup.rollup_oid::regclass, v_listed, p_rollup.bucket_column, v_bucket, v_of_sums) USING v_some;
        EXECUTE format('INSERT INTO %s %s', p_rollup.rollup_oid::regclass, thermocline._rollup_query(p_rollup, format(
            'SELECT s.* FROM %1$s JOIN LATERAL (SELECT * FROM %%s x'
            ' WHERE x.%2$s >= d.thermocline_from::%3$s AND x.%2$s < d.thermocline_to::%3$s AND %4$s'
            ' AND x.%2$s >= $2::%3$s AND x.%2$s < $3::%3$s) s ON true',
            replace(v_listed, '%', '%%'), replace(quote_ident(p_rollup.source_time_column), '%', '%%'), v_time,
            replace(v_of_rows, '%', '%%')))) USING v_some, v_first, v_last;
    END LOOP;
END
$$;

COMMENT ON FUNCTION thermocline._recompute_keys(lakets._rollup_registry, jsonb[]) IS 'Computes single keys of buckets anew.';
