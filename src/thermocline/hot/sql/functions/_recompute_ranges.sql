-- Computes the buckets of whole ranges anew: what is there goes, what the source says now comes. Ranges begin and end with buckets.
-- Wide ranges and few are taken one by one, so that each is planned for the chunks that it has; many narrow ones a hundred at a time.
-- Of an open range, which is computed at every refresh, only rows that come out otherwise are written. They are deleted before new
-- ones are inserted because the INSERT asks for their number.
CREATE OR REPLACE FUNCTION thermocline._recompute_ranges(p_rollup lakets._rollup_registry, p_ranges tstzrange[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET jit = off
AS $$
DECLARE
    c_batch  constant int := 100;
    c_few    constant int := 4;
    v_time   regtype;
    v_bucket regtype;
    v_equal  boolean;
    v_single boolean;
    v_some   tstzrange[];
    v_rows   text;
BEGIN
    SELECT atttypid INTO STRICT v_time FROM pg_attribute
    WHERE attrelid = p_rollup.source_oid AND attname = p_rollup.source_time_column;
    SELECT atttypid INTO STRICT v_bucket FROM pg_attribute
    WHERE attrelid = p_rollup.rollup_oid AND attname = p_rollup.bucket_column;
    v_rows := format('SELECT * FROM %%s x WHERE x.%1$s >= $1::%2$s AND x.%1$s < $2::%2$s',
                     replace(quote_ident(p_rollup.source_time_column), '%', '%%'), v_time);
    SELECT bool_and(thermocline._is_common_type(atttypid)) INTO v_equal FROM pg_attribute
    WHERE attrelid = p_rollup.rollup_oid AND attnum > 0 AND NOT attisdropped;
    FOR v_single, v_some IN
        WITH ranges AS (
            SELECT r.range, cardinality(p_ranges) <= c_few
                            OR coalesce(upper(r.range) - lower(r.range) >= c_batch * p_rollup.bucket_interval, true) AS single
            FROM unnest(p_ranges) r (range)
        ), numbered AS (
            SELECT *, row_number() OVER (PARTITION BY single ORDER BY range) - 1 AS n FROM ranges
        )
        SELECT single, array_agg(range) FROM numbered
        GROUP BY single, n / CASE WHEN single THEN 1 ELSE c_batch END ORDER BY 2
    LOOP
        IF v_single AND v_equal AND upper_inf(v_some[1]) THEN
            EXECUTE format(
                'WITH fresh AS MATERIALIZED (%1$s), gone AS (DELETE FROM %2$s t WHERE t.%3$I >= $1::%4$s AND t.%3$I < $2::%4$s'
                ' AND NOT EXISTS (SELECT FROM fresh f WHERE ROW(f.*)::%2$s = ROW(t.*)::%2$s) RETURNING 1)'
                ' INSERT INTO %2$s SELECT f.* FROM fresh f WHERE (SELECT count(*) FROM gone) IS NOT NULL AND NOT EXISTS'
                ' (SELECT FROM %2$s t WHERE t.%3$I >= $1::%4$s AND t.%3$I < $2::%4$s AND ROW(t.*)::%2$s = ROW(f.*)::%2$s)',
                thermocline._rollup_query(p_rollup, v_rows), p_rollup.rollup_oid::regclass, p_rollup.bucket_column, v_bucket)
            USING coalesce(lower(v_some[1]), '-infinity'), timestamptz 'infinity';
            CONTINUE;
        ELSIF v_single THEN
            EXECUTE format('DELETE FROM %1$s t WHERE t.%2$I >= $1::%3$s AND t.%2$I < $2::%3$s',
                           p_rollup.rollup_oid::regclass, p_rollup.bucket_column, v_bucket)
            USING coalesce(lower(v_some[1]), '-infinity'), coalesce(upper(v_some[1]), 'infinity');
            EXECUTE format('INSERT INTO %s %s', p_rollup.rollup_oid::regclass, thermocline._rollup_query(p_rollup, v_rows))
            USING coalesce(lower(v_some[1]), '-infinity'), coalesce(upper(v_some[1]), 'infinity');
            CONTINUE;
        END IF;
        EXECUTE format(
            'DELETE FROM %1$s t USING unnest($1) d (r) WHERE t.%2$I >= lower(d.r)::%3$s AND t.%2$I < upper(d.r)::%3$s',
            p_rollup.rollup_oid::regclass, p_rollup.bucket_column, v_bucket) USING v_some;
        EXECUTE format('INSERT INTO %s %s', p_rollup.rollup_oid::regclass, thermocline._rollup_query(p_rollup, format(
            'SELECT s.* FROM unnest($1) d (r) JOIN LATERAL (SELECT * FROM %%s x'
            ' WHERE x.%1$s >= lower(d.r)::%2$s AND x.%1$s < upper(d.r)::%2$s) s ON true',
            replace(quote_ident(p_rollup.source_time_column), '%', '%%'), v_time))) USING v_some;
    END LOOP;
END
$$;

COMMENT ON FUNCTION thermocline._recompute_ranges(lakets._rollup_registry, tstzrange[]) IS 'Computes the buckets of ranges of time anew.';
