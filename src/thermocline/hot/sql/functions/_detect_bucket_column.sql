-- The column that a RollUp of this query would take for its bucket: the leftmost one of a type of time. NULL if there is none.
-- Names in the query are looked up as the caller would.
CREATE OR REPLACE FUNCTION lakets._detect_bucket_column(p_query_text text) RETURNS text
LANGUAGE sql
RETURN thermocline._bucket_column_of(p_query_text, pg_catalog.current_setting('search_path'));

COMMENT ON FUNCTION lakets._detect_bucket_column(text) IS 'The first column of time that a query selects.';
