-- The query over those rows only whose time is not before the bucket of p_dirty_from, so that PostgreSQL passes by older chunks;
-- all names in it have their schemas. The query as it is when it is not proven that its buckets from there on come out the same.
-- Names in the query are looked up as the caller would.
CREATE OR REPLACE FUNCTION lakets._inject_time_predicate(
    p_query_text  text,
    p_time_column text,
    p_dirty_from  timestamptz
) RETURNS text
LANGUAGE sql
RETURN thermocline._add_time_predicate(p_query_text, p_time_column, p_dirty_from, pg_catalog.current_setting('search_path'));

COMMENT ON FUNCTION lakets._inject_time_predicate(text, text, timestamptz) IS
    'A query with a condition on time, or the query itself when that might change its buckets.';
