-- Computes buckets of a RollUp anew by the given query, p_chunk_size at a time: a DELETE and an INSERT for each lot. Buckets whose
-- rows have left PostgreSQL stay as they are. Returns how many were replaced. Names in the query are looked up as the caller
-- would.
CREATE OR REPLACE FUNCTION lakets._refresh_buckets_chunked(
    p_rollup_id     int,
    p_rollup_table  text,
    p_query_text    text,
    p_bucket_column text,
    p_dirty_buckets timestamptz[],
    p_chunk_size    int DEFAULT 100
) RETURNS int
LANGUAGE sql
RETURN thermocline._put_buckets(p_rollup_id, p_rollup_table, p_query_text, p_bucket_column, p_dirty_buckets, p_chunk_size,
                                pg_catalog.current_setting('search_path'));

COMMENT ON FUNCTION lakets._refresh_buckets_chunked(int, text, text, text, timestamptz[], int) IS
    'Replaces the given buckets of a RollUp by what a query gives for them, a hundred at a time; returns how many.';
