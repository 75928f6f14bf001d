-- What lakets.ingest_batch does. Everything is looked at with our own search_path; the INSERT alone, in which every name is
-- written with its schema, runs with the caller's, which triggers and defaults of the table see. It ends with this function.
CREATE OR REPLACE FUNCTION lakets._ingest_batch(
    p_table_name  text,
    p_data        jsonb,
    p_schema_name text,
    p_search_path text
) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c_empty   constant int := pg_column_size(jsonb '{}');
    v_table   oid := lakets._table_oid(p_table_name, p_schema_name);
    v_names   text[];
    v_alike   boolean;
    v_unknown text;
    v_insert  text;
    v_rows    int;
BEGIN
    IF p_data IS NULL OR jsonb_typeof(p_data) <> 'array' THEN
        RAISE EXCEPTION 'cannot ingest into %.%: p_data is %, not an array', quote_ident(p_schema_name),
            quote_ident(p_table_name), coalesce(jsonb_typeof(p_data), 'NULL')
            USING HINT = 'p_data is a JSON array of objects, one per row: [{"time": "...", "value": 1}].';
    END IF;
    IF p_data = '[]' THEN
        RETURN 0;
    END IF;
    -- Most batches name the same columns in every object. One look that finds nothing else is cheaper than a list of all.
    -- (It takes the names from the first object again: an array of a variable would be unpacked for every object. To look at the size
    -- of what is left is cheaper than to compare it. An empty array among the objects is left to the INSERT, which refuses it.)
    IF jsonb_typeof(p_data -> 0) = 'object' THEN
        SELECT array_agg(k) INTO v_names FROM jsonb_object_keys(p_data -> 0) k;
    END IF;
    BEGIN
        v_alike := v_names IS NOT NULL AND NOT EXISTS (
            SELECT FROM (SELECT array_agg(k) AS names FROM jsonb_object_keys(p_data -> 0) k) f, jsonb_array_elements(p_data) e
            WHERE pg_column_size(e - f.names) > c_empty);
    EXCEPTION
        WHEN invalid_parameter_value THEN  -- from a number nothing can be taken away
            v_alike := false;
    END;
    IF NOT v_alike THEN
        IF EXISTS (SELECT FROM jsonb_array_elements(p_data) e WHERE jsonb_typeof(e) <> 'object') THEN
            RAISE EXCEPTION 'cannot ingest into %.%: an element of p_data is not an object', quote_ident(p_schema_name),
                quote_ident(p_table_name) USING HINT = 'p_data is a JSON array of objects, one per row.';
        END IF;
        SELECT array_agg(DISTINCT k) INTO v_names FROM jsonb_array_elements(p_data) e, jsonb_object_keys(e) k;
    END IF;
    SELECT string_agg(quote_ident(n), ', ' ORDER BY n) FILTER (WHERE a.attnum IS NULL),
           format('INSERT INTO %I.%I (%s) SELECT %3$s FROM pg_catalog.jsonb_to_recordset($1) AS r (%s)', p_schema_name, p_table_name,
                  string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum),
                  string_agg(quote_ident(a.attname) || ' ' || lakets._type_name(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum))
    INTO v_unknown, v_insert
    FROM unnest(v_names) n
    LEFT JOIN pg_attribute a ON a.attrelid = v_table AND a.attname = n AND a.attnum > 0 AND NOT a.attisdropped;
    IF v_unknown IS NOT NULL THEN
        RAISE EXCEPTION 'cannot ingest into %.%: it has no column %', quote_ident(p_schema_name), quote_ident(p_table_name),
            v_unknown USING HINT = 'The names in the objects are the names of the columns, in the same case.';
    END IF;
    IF v_names IS NULL THEN
        RAISE EXCEPTION 'cannot ingest into %.%: no object names a column', quote_ident(p_schema_name),
            quote_ident(p_table_name) USING HINT = 'p_data is a JSON array of objects, one per row.';
    END IF;
    PERFORM set_config('search_path', p_search_path, true);
    EXECUTE v_insert USING p_data;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    RETURN v_rows;
END
$$;

COMMENT ON FUNCTION lakets._ingest_batch(text, jsonb, text, text) IS
    'Inserts the objects of a JSON array with this search_path; returns how many.';
