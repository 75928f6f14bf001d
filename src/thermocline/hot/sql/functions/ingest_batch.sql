-- Inserts a JSON array of objects in one statement. Columns that no object names take their defaults; a name that is no
-- column is an error, so that nothing is lost in silence. Triggers and defaults of the table run with the search_path of
-- whoever calls, as they would for an INSERT: so ours is not set by a clause, which would hide the caller's, but by the first statement,
-- before anything is looked up by a name without its schema.
CREATE OR REPLACE FUNCTION lakets.ingest_batch(
    p_table_name  text,
    p_data        jsonb,
    p_schema_name text DEFAULT 'public'
) RETURNS int
LANGUAGE plpgsql
AS $$
DECLARE
    v_callers constant pg_catalog.text := pg_catalog.current_setting('search_path');
    v_table   pg_catalog.oid;
    v_names   pg_catalog.text[];
    v_insert  record;
    v_rows    pg_catalog.int4 := 0;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    v_table := lakets._table_oid(p_table_name, p_schema_name);
    IF p_data IS NULL OR jsonb_typeof(p_data) <> 'array' THEN
        RAISE EXCEPTION 'cannot ingest into %.%: p_data is %, not an array', quote_ident(p_schema_name),
            quote_ident(p_table_name), coalesce(jsonb_typeof(p_data), 'NULL')
            USING HINT = 'p_data is a JSON array of objects, one per row: [{"time": "...", "value": 1}].';
    END IF;
    IF p_data <> '[]' THEN
        v_names := lakets._names_in(p_data);
        IF v_names IS NULL OR v_names = '{}' THEN
            RAISE EXCEPTION 'cannot ingest into %.%: %', quote_ident(p_schema_name), quote_ident(p_table_name),
                CASE WHEN v_names IS NULL THEN 'an element of p_data is not an object' ELSE 'no object names a column' END
                USING HINT = 'p_data is a JSON array of objects, one per row.';
        END IF;
        v_insert := lakets._insert_of_objects(v_table, v_names);
        IF v_insert.unknown IS NOT NULL THEN
            RAISE EXCEPTION 'cannot ingest into %.%: it has no column %', quote_ident(p_schema_name), quote_ident(p_table_name),
                v_insert.unknown USING HINT = 'The names in the objects are the names of the columns, in the same case.';
        END IF;
    END IF;
    PERFORM pg_catalog.set_config('search_path', v_callers, true);
    IF v_names IS NOT NULL THEN
        EXECUTE v_insert.statement USING p_data;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
    END IF;
    RETURN v_rows;
END
$$;

COMMENT ON FUNCTION lakets.ingest_batch(text, jsonb, text) IS
    'Inserts one row per object of a JSON array and returns how many. What an object does not name is NULL if another one '
    'names it, and the column''s default otherwise.';
