-- The oid of a table by its exact name, or an error that says whether the schema or the table is missing.
CREATE OR REPLACE FUNCTION lakets._table_oid(p_table_name text, p_schema_name text) RETURNS oid
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_table oid;
BEGIN
    IF p_table_name IS NULL OR p_schema_name IS NULL THEN
        RAISE EXCEPTION 'the name of the table is %, of the schema %', coalesce(p_table_name, 'NULL'),
            coalesce(p_schema_name, 'NULL') USING HINT = 'Give both; p_schema_name is public unless you say otherwise.';
    END IF;
    SELECT c.oid INTO v_table FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = p_schema_name AND c.relname = p_table_name AND c.relkind IN ('r', 'p', 'v', 'm', 'f');
    IF v_table IS NULL AND NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = p_schema_name) THEN
        RAISE EXCEPTION 'there is no schema %', quote_ident(p_schema_name)
            USING HINT = 'Name the schema of the table with p_schema_name, in the case that it was made with.';
    END IF;
    IF v_table IS NULL THEN
        RAISE EXCEPTION 'there is no table %.%', quote_ident(p_schema_name), quote_ident(p_table_name)
            USING HINT = 'Give the name without its schema, in the case that it was made with.';
    END IF;
    RETURN v_table;
END
$$;

COMMENT ON FUNCTION lakets._table_oid(text, text) IS 'Oid of the table of this name; an error if there is none.';
