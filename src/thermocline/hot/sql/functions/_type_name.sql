-- The name of a type as it can be written under any search_path. format_type leaves the schema out where our own path finds
-- the type; words of the grammar, as integer, mean the same everywhere and take no schema.
CREATE OR REPLACE FUNCTION lakets._type_name(p_type oid, p_typmod int) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN starts_with(n.name, quote_ident(t.typname)) THEN quote_ident(s.nspname) || '.' ELSE '' END || n.name
    FROM pg_type a
    JOIN pg_type t ON t.oid = CASE WHEN a.typsubscript = 'array_subscript_handler'::regproc THEN a.typelem ELSE a.oid END
    JOIN pg_namespace s ON s.oid = t.typnamespace,
    format_type(p_type, p_typmod) n (name)
    WHERE a.oid = p_type
$$;

COMMENT ON FUNCTION lakets._type_name(oid, int) IS 'Name of a type with its schema, unless the grammar knows it.';
