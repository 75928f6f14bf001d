-- The buckets of a RollUp that times fall into.
CREATE OR REPLACE FUNCTION thermocline._buckets_of_rollup(p_rollup_id int, p_times timestamptz[])
RETURNS TABLE (t timestamptz, bucket timestamptz)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    SELECT b.t, b.bucket
    FROM lakets._rollup_registry g
    JOIN pg_attribute a ON a.attrelid = g.source_oid AND a.attname = g.source_time_column,
    thermocline._buckets_of(g.bucket_expression, g.source_alias, g.source_time_column, a.atttypid, p_times) b
    WHERE g.id = p_rollup_id;
    IF NOT FOUND AND cardinality(p_times) > 0 THEN
        RAISE EXCEPTION 'the RollUp % reads a column of time that its source no longer has: %',
            (SELECT g.name FROM lakets._rollup_registry g WHERE g.id = p_rollup_id),
            (SELECT quote_ident(g.source_time_column) FROM lakets._rollup_registry g WHERE g.id = p_rollup_id)
            USING HINT = 'Rename the column back, or drop the RollUp and make it anew: its buckets whose rows have left PostgreSQL are lost then.';
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._buckets_of_rollup(int, timestamptz[]) IS 'The buckets of a RollUp that times fall into.';
