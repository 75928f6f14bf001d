-- Inserts one sample in the shape that Prometheus sends.
CREATE OR REPLACE FUNCTION lakets.ingest_prometheus(
    p_table_name  text,
    p_metric_name text,
    p_labels      jsonb,
    p_value       float8,
    p_timestamp   timestamptz DEFAULT pg_catalog.now(),
    p_schema_name text        DEFAULT 'public'
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
    v_table   oid := lakets._table_oid(p_table_name, p_schema_name);
    v_missing text;
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
    EXECUTE format('INSERT INTO %s ("time", metric_name, labels, value) VALUES ($1, $2, $3, $4)', v_table::regclass)
    USING p_timestamp, p_metric_name, p_labels, p_value;
END
$$;

COMMENT ON FUNCTION lakets.ingest_prometheus(text, text, jsonb, float8, timestamptz, text) IS
    'Inserts one sample into a table with the columns time, metric_name, labels and value.';
