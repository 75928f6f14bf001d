-- The buckets of a RollUp that times fall into.
CREATE OR REPLACE FUNCTION thermocline._buckets_of_rollup(p_rollup lakets._rollup_registry, p_times timestamptz[])
RETURNS TABLE (t timestamptz, bucket timestamptz)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    SELECT b.t, b.bucket
    FROM pg_attribute a,
    thermocline._buckets_of(p_rollup.bucket_expression, p_rollup.source_alias, p_rollup.source_time_column, a.atttypid, p_times) b
    WHERE a.attrelid = p_rollup.source_oid AND a.attname = p_rollup.source_time_column;
    IF NOT FOUND AND cardinality(p_times) > 0 THEN
        RAISE EXCEPTION 'the RollUp % reads a column of time that its source no longer has: %', p_rollup.name,
            quote_ident(p_rollup.source_time_column)
            USING HINT = 'Rename the column back, or drop the RollUp and make it anew: its buckets whose rows have left PostgreSQL are lost then.';
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._buckets_of_rollup(lakets._rollup_registry, timestamptz[]) IS 'The buckets of a RollUp that times fall into.';
