-- What a table has that LIKE does not copy, as statements to run once its successor carries its name: owner, keys,
-- indexes, grants and the comment. Built before anything is renamed, so that every name is still the old one.
CREATE OR REPLACE FUNCTION lakets._statements_after_conversion(p_table oid) RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH t AS (
        SELECT c.*, format('%I.%I', n.nspname, c.relname) AS full_name
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = p_table
    ), statements (step, name, statement) AS (
        SELECT 1, k.conname, format('ALTER TABLE %s ADD CONSTRAINT %I %s', t.full_name, k.conname, pg_get_constraintdef(k.oid))
        FROM t JOIN pg_constraint k ON k.conrelid = t.oid AND k.contype IN ('p', 'u')
        UNION ALL
        SELECT 2, i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid)
        FROM t JOIN pg_index i ON i.indrelid = t.oid
        WHERE NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = t.oid)
        UNION ALL
        SELECT 3, a.privilege_type || a.grantee, format('GRANT %s ON %s TO %s%s', a.privilege_type, t.full_name,
               CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
               CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
        FROM t, aclexplode(t.relacl) a WHERE a.grantee <> t.relowner
        UNION ALL
        SELECT 3, b.attname || a.privilege_type || a.grantee, format('GRANT %s (%I) ON %s TO %s%s', a.privilege_type, b.attname,
               t.full_name, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
               CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
        FROM t JOIN pg_attribute b ON b.attrelid = t.oid AND b.attacl IS NOT NULL, aclexplode(b.attacl) a
        UNION ALL
        SELECT 4, '', format('COMMENT ON TABLE %s IS %L', t.full_name, obj_description(t.oid, 'pg_class'))
        FROM t WHERE obj_description(t.oid, 'pg_class') IS NOT NULL
        UNION ALL
        SELECT 5, '', format('ALTER TABLE %s OWNER TO %I', t.full_name, pg_get_userbyid(t.relowner)) FROM t
    )
    SELECT coalesce(array_agg(statement ORDER BY step, name), '{}') FROM statements
$$;

COMMENT ON FUNCTION lakets._statements_after_conversion(oid) IS
    'Statements that give the successor of a table its keys, indexes, grants, comment and owner.';
