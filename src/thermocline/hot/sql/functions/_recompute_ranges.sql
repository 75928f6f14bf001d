-- Computes the buckets of whole ranges anew, a hundred ranges at a time: what is there goes, what the source says now comes.
-- Ranges begin and end with buckets.
CREATE OR REPLACE FUNCTION thermocline._recompute_ranges(p_rollup_id int, p_ranges tstzrange[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET jit = off
AS $$
DECLARE
    c_batch  constant int := 100;
    v_rollup lakets._rollup_registry;
    v_time   regtype;
    v_bucket regtype;
    v_some   tstzrange[];
BEGIN
    SELECT * INTO STRICT v_rollup FROM lakets._rollup_registry WHERE id = p_rollup_id;
    SELECT atttypid INTO STRICT v_time FROM pg_attribute
    WHERE attrelid = v_rollup.source_oid AND attname = v_rollup.source_time_column;
    SELECT atttypid INTO STRICT v_bucket FROM pg_attribute
    WHERE attrelid = v_rollup.rollup_oid AND attname = v_rollup.bucket_column;
    FOR v_some IN
        SELECT array_agg(r.range) FROM unnest(p_ranges) WITH ORDINALITY r (range, n) GROUP BY (r.n - 1) / c_batch ORDER BY 1
    LOOP
        EXECUTE format(
            'DELETE FROM %1$s t USING unnest($1) d (r)'
            ' WHERE t.%2$I >= coalesce(lower(d.r), ''-infinity'')::%3$s AND t.%2$I < coalesce(upper(d.r), ''infinity'')::%3$s',
            v_rollup.rollup_oid::regclass, v_rollup.bucket_column, v_bucket) USING v_some;
        EXECUTE format('INSERT INTO %s %s', v_rollup.rollup_oid::regclass, thermocline._rollup_query(p_rollup_id, format(
            'SELECT s.* FROM unnest($1) d (r) JOIN LATERAL (SELECT * FROM %%s x'
            ' WHERE x.%1$I >= coalesce(lower(d.r), ''-infinity'')::%2$s AND x.%1$I < coalesce(upper(d.r), ''infinity'')::%2$s) s ON true',
            v_rollup.source_time_column, v_time))) USING v_some;
    END LOOP;
END
$$;

COMMENT ON FUNCTION thermocline._recompute_ranges(int, tstzrange[]) IS 'Computes the buckets of ranges of time anew.';
