-- The name of the table that a partition belongs to, however many levels up; a table that is no partition is its own. NULL if
-- there is no such table.
CREATE OR REPLACE FUNCTION lakets._resolve_partition_parent(p_schema text, p_table text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT r.relname::text
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_class r ON r.oid = coalesce(pg_partition_root(c.oid), c.oid)
    WHERE n.nspname = p_schema AND c.relname = p_table
$$;

COMMENT ON FUNCTION lakets._resolve_partition_parent(text, text) IS 'The name of the table that a partition belongs to.';
