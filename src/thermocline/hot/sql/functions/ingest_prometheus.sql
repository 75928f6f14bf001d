-- Inserts one sample in the shape that Prometheus sends. Triggers and defaults of the table run with the search_path of
-- whoever calls, as they would for an INSERT.
CREATE OR REPLACE FUNCTION lakets.ingest_prometheus(
    p_table_name  text,
    p_metric_name text,
    p_labels      jsonb,
    p_value       float8,
    p_timestamp   timestamptz DEFAULT pg_catalog.now(),
    p_schema_name text        DEFAULT 'public'
) RETURNS void
LANGUAGE sql
RETURN lakets._ingest_prometheus(
    p_table_name, p_metric_name, p_labels, p_value, p_timestamp, p_schema_name, pg_catalog.current_setting('search_path'));

COMMENT ON FUNCTION lakets.ingest_prometheus(text, text, jsonb, float8, timestamptz, text) IS
    'Inserts one sample into a table with the columns time, metric_name, labels and value.';
