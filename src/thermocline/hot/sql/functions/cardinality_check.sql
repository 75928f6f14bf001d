-- Whether a table has more series than it should: a series is one combination of its text columns. Reads the whole table.
CREATE OR REPLACE FUNCTION lakets.cardinality_check(
    p_table_name  text,
    p_max_series  bigint DEFAULT 100000,
    p_schema_name text   DEFAULT 'public'
) RETURNS TABLE (status text, combined_cardinality bigint, max_allowed bigint, tag_columns text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_table oid := lakets._table_oid(p_table_name, p_schema_name);
    v_tags  text[];
    v_count bigint := 0;
BEGIN
    IF p_max_series IS NULL OR p_max_series < 1 THEN
        RAISE EXCEPTION 'cannot check %.% against % series', quote_ident(p_schema_name), quote_ident(p_table_name),
            coalesce(p_max_series::text, 'NULL') USING HINT = 'p_max_series is at least 1.';
    END IF;
    SELECT array_agg(attname::text ORDER BY attnum) INTO v_tags
    FROM pg_attribute WHERE attrelid = v_table AND attnum > 0 AND NOT attisdropped AND atttypid = 'text'::regtype;
    IF v_tags IS NOT NULL THEN
        EXECUTE format('SELECT count(*) FROM (SELECT DISTINCT %s FROM %s) series',
                       (SELECT string_agg(quote_ident(t), ', ' ORDER BY n) FROM unnest(v_tags) WITH ORDINALITY u(t, n)),
                       v_table::regclass) INTO v_count;
    END IF;
    RETURN QUERY SELECT CASE WHEN v_count > p_max_series THEN 'CRITICAL'
                             WHEN v_count > p_max_series * 0.8 THEN 'WARNING'
                             ELSE 'OK' END,
                        v_count, p_max_series, coalesce(array_to_string(v_tags, ', '), '');
END
$$;

COMMENT ON FUNCTION lakets.cardinality_check(text, bigint, text) IS
    'Number of series of a table against a bound: OK, WARNING above 80 % of it, CRITICAL above it; 0 without text columns.';
