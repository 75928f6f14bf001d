-- What lakets.ingest_prometheus does: all checks with our own search_path, the INSERT with the caller's, as
-- lakets.ingest_batch. A time column without a zone is UTC's, whatever the session's zone is.
CREATE OR REPLACE FUNCTION lakets._ingest_prometheus(
    p_table_name  text,
    p_metric_name text,
    p_labels      jsonb,
    p_value       float8,
    p_timestamp   timestamptz,
    p_schema_name text,
    p_search_path text
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_table   oid := lakets._table_oid(p_table_name, p_schema_name);
    v_missing text;
    v_insert  text;
BEGIN
    IF p_metric_name IS NULL OR p_timestamp IS NULL THEN
        RAISE EXCEPTION 'cannot ingest into %.%: the sample has no %', quote_ident(p_schema_name), quote_ident(p_table_name),
            CASE WHEN p_metric_name IS NULL THEN 'metric name' ELSE 'time' END
            USING HINT = 'Labels and value may be NULL if the columns may.';
    END IF;
    SELECT string_agg(n, ', ' ORDER BY at) INTO v_missing
    FROM unnest('{time, metric_name, labels, value}'::text[]) WITH ORDINALITY u (n, at)
    WHERE NOT EXISTS (SELECT FROM pg_attribute a
                      WHERE a.attrelid = v_table AND a.attname = n AND a.attnum > 0 AND NOT a.attisdropped);
    IF v_missing IS NOT NULL THEN
        RAISE EXCEPTION 'cannot ingest into %.%: it has no column %', quote_ident(p_schema_name), quote_ident(p_table_name),
            v_missing USING HINT = 'The table needs the columns time, metric_name, labels and value.';
    END IF;
    SELECT format('INSERT INTO %I.%I ("time", metric_name, labels, value) VALUES (%s, $2, $3, $4)', p_schema_name, p_table_name,
                  CASE WHEN atttypid IN ('timestamp'::regtype, 'date'::regtype) THEN 'pg_catalog.timezone(''UTC'', $1)' ELSE '$1' END)
    INTO v_insert FROM pg_attribute WHERE attrelid = v_table AND attname = 'time';
    PERFORM set_config('search_path', p_search_path, true);
    EXECUTE v_insert USING p_timestamp, p_metric_name, p_labels, p_value;
END
$$;

COMMENT ON FUNCTION lakets._ingest_prometheus(text, text, jsonb, float8, timestamptz, text, text) IS
    'Inserts one sample with this search_path.';
