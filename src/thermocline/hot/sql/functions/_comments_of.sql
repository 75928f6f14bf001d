-- The comments on a relation and, of a view, on its columns. (Columns of a table keep theirs by LIKE.)
CREATE OR REPLACE FUNCTION lakets._comments_of(p_relation oid) RETURNS TABLE (statement text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN a.attname IS NOT NULL THEN format('COMMENT ON COLUMN %s.%I IS %L', r.full_name, a.attname, d.description)
                ELSE format('COMMENT ON %s %s IS %L', r.kind, r.full_name, d.description) END
    FROM (SELECT c.oid, format('%I.%I', n.nspname, c.relname) AS full_name,
                 CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = p_relation) r
    JOIN pg_description d ON d.classoid = 'pg_class'::regclass AND d.objoid = r.oid
    LEFT JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum = d.objsubid AND d.objsubid > 0
    ORDER BY d.objsubid
$$;

COMMENT ON FUNCTION lakets._comments_of(oid) IS
    'Comments on a relation and its columns, as statements.';
