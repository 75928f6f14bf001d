-- Computes buckets of a RollUp anew by the given query: one DELETE and one INSERT for all of them. Buckets whose rows have left
-- PostgreSQL stay as they are. Returns how many were replaced. Names in the query are looked up as the caller would.
CREATE OR REPLACE FUNCTION lakets._refresh_buckets_batch(
    p_rollup_id     int,
    p_rollup_table  text,
    p_query_text    text,
    p_bucket_column text,
    p_dirty_buckets timestamptz[]
) RETURNS int
LANGUAGE sql
RETURN thermocline._put_buckets(p_rollup_id, p_rollup_table, p_query_text, p_bucket_column, p_dirty_buckets,
                                greatest(pg_catalog.cardinality(p_dirty_buckets), 1),
                                pg_catalog.current_setting('search_path'));

COMMENT ON FUNCTION lakets._refresh_buckets_batch(int, text, text, text, timestamptz[]) IS
    'Replaces the given buckets of a RollUp by what a query gives for them, at once; returns how many.';
