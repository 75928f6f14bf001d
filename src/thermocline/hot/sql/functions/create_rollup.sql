-- Makes a RollUp: a table with the result of an aggregate by buckets of time, kept up by refresh_rollup. The names in the query
-- are looked up as the caller would.
CREATE OR REPLACE FUNCTION lakets.create_rollup(
    p_name            text,
    p_query           text,
    p_bucket_interval interval DEFAULT '1 hour',
    p_source_table    text     DEFAULT NULL,
    p_source_schema   text     DEFAULT 'public',
    p_depends_on      text[]   DEFAULT '{}'
) RETURNS int
LANGUAGE sql
RETURN lakets._create_rollup(p_name, p_query, p_bucket_interval, p_source_table, p_source_schema, p_depends_on,
                             pg_catalog.current_setting('search_path'));

COMMENT ON FUNCTION lakets.create_rollup(text, text, interval, text, text, text[]) IS
    'Makes a RollUp of an aggregate by buckets of time over a ChronoTable or another RollUp; returns its id.';
