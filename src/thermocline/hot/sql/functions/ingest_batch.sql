-- Inserts a JSON array of objects in one statement. Columns that no object names take their defaults; a name that is no
-- column is an error, so that nothing is lost in silence. Triggers and defaults of the table run with the search_path of
-- whoever calls, as they would for an INSERT.
CREATE OR REPLACE FUNCTION lakets.ingest_batch(
    p_table_name  text,
    p_data        jsonb,
    p_schema_name text DEFAULT 'public'
) RETURNS int
LANGUAGE sql
RETURN lakets._ingest_batch(p_table_name, p_data, p_schema_name, pg_catalog.current_setting('search_path'));

COMMENT ON FUNCTION lakets.ingest_batch(text, jsonb, text) IS
    'Inserts one row per object of a JSON array and returns how many. What an object does not name is NULL if another one '
    'names it, and the column''s default otherwise.';
