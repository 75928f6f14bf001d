-- How many different values each text column of a table has. Reads the whole table.
CREATE OR REPLACE FUNCTION lakets.cardinality_stats(
    p_table_name  text,
    p_schema_name text DEFAULT 'public'
) RETURNS TABLE (column_name text, distinct_values bigint, total_rows bigint, pct_of_rows numeric)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_table   oid := lakets._table_oid(p_table_name, p_schema_name);
    v_columns text[];
    v_counts  bigint[];
BEGIN
    SELECT array_agg(attname::text ORDER BY attnum) INTO v_columns
    FROM pg_attribute WHERE attrelid = v_table AND attnum > 0 AND NOT attisdropped AND atttypid = 'text'::regtype;
    EXECUTE format('SELECT ARRAY[count(*)%s] FROM %s',
                   (SELECT string_agg(format(', count(DISTINCT %I)', c), '' ORDER BY n)
                    FROM unnest(v_columns) WITH ORDINALITY u(c, n)), v_table::regclass) INTO v_counts;
    RETURN QUERY
    SELECT c, v_counts[n + 1], v_counts[1],
           CASE WHEN v_counts[1] = 0 THEN 0 ELSE round(100.0 * v_counts[n + 1] / v_counts[1], 2) END
    FROM unnest(v_columns) WITH ORDINALITY u(c, n) ORDER BY n;
END
$$;

COMMENT ON FUNCTION lakets.cardinality_stats(text, text) IS
    'For each text column its number of different values, NULL not counted, and their share of the rows in per cent.';
