-- Replaces buckets of a RollUp by what a query gives for them: one DELETE and one INSERT for every p_at_once of them. Buckets
-- whose rows have left PostgreSQL stay as they are. Names in the query are looked up along p_path. Returns how many were replaced.
CREATE OR REPLACE FUNCTION thermocline._put_buckets(
    p_rollup_id     int,
    p_rollup_table  text,
    p_query         text,
    p_bucket_column text,
    p_buckets       timestamptz[],
    p_at_once       int,
    p_path          text
) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET jit = off
AS $$
DECLARE
    v_rollup  lakets._rollup_registry;
    v_frozen  tstzmultirange;
    v_buckets timestamptz[];
    v_some    timestamptz[];
    v_query   text := rtrim(p_query, E'; \n\t');
    v_type    regtype;
    v_table   oid;
BEGIN
    SELECT * INTO v_rollup FROM lakets._rollup_registry WHERE id = p_rollup_id;
    PERFORM set_config('search_path', p_path, true);
    v_table := to_regclass(p_rollup_table);
    PERFORM set_config('search_path', 'pg_catalog, pg_temp', true);
    IF v_table IS NULL OR v_table IS DISTINCT FROM v_rollup.rollup_oid
       OR p_bucket_column IS DISTINCT FROM v_rollup.bucket_column THEN
        RAISE EXCEPTION '% is not the table of RollUp %, by buckets of %', p_rollup_table, p_rollup_id, p_bucket_column
            USING HINT = 'SELECT id, rollup_table, query_text, bucket_column FROM lakets._rollup_registry lists them.';
    ELSIF p_at_once IS NULL OR p_at_once < 1 THEN
        RAISE EXCEPTION 'cannot replace buckets of % % at a time', v_rollup.name, coalesce(p_at_once::text, 'NULL')
            USING HINT = 'Give a number from 1 on.';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('thermocline rollup ' || p_rollup_id, 0));
    v_frozen := thermocline._frozen_buckets(v_rollup);
    SELECT coalesce(array_agg(DISTINCT d ORDER BY d), '{}') INTO v_buckets
    FROM unnest(p_buckets) d WHERE isfinite(d) AND NOT d <@ v_frozen;
    SELECT atttypid INTO STRICT v_type FROM pg_attribute WHERE attrelid = v_table AND attname = p_bucket_column;
    IF v_rollup.predicate_injection THEN
        v_query := thermocline._add_time_predicate(v_query, v_rollup.source_time_column, v_buckets[1], p_path);
    END IF;
    FOR n IN 1 .. cardinality(v_buckets) BY p_at_once LOOP
        v_some := v_buckets[n : n + p_at_once - 1];
        EXECUTE format('DELETE FROM %s t WHERE t.%I = ANY ($1::%s[])', v_table::regclass, p_bucket_column, v_type)
        USING v_some;
        PERFORM set_config('search_path', p_path, true);
        EXECUTE format('INSERT INTO %s SELECT * FROM (%s) q WHERE q.%I = ANY ($1::%s[])', v_table::regclass, v_query,
                       p_bucket_column, v_type) USING v_some;
        PERFORM set_config('search_path', 'pg_catalog, pg_temp', true);
    END LOOP;
    PERFORM thermocline._mark_dependents(p_rollup_id, (
        SELECT coalesce(range_agg(tstzrange(e.bucket, e.bucket_end)), '{}') FROM thermocline._bucket_ends(v_rollup, v_buckets) e), NULL);
    RETURN cardinality(v_buckets);
END
$$;

COMMENT ON FUNCTION thermocline._put_buckets(int, text, text, text, timestamptz[], int, text) IS
    'Replaces buckets of a RollUp; names in p_query are looked up along p_path.';
