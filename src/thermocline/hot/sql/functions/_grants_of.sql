-- The rights that others than the owner have on a relation or its columns, as statements to give them anew.
CREATE OR REPLACE FUNCTION lakets._grants_of(p_relation oid) RETURNS TABLE (statement text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH r AS (
        SELECT c.*, format('%I.%I', n.nspname, c.relname) AS full_name
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = p_relation
    ), given AS (
        SELECT a.privilege_type AS what, a.grantee, a.is_grantable FROM r, aclexplode(r.relacl) a WHERE a.grantee <> r.relowner
        UNION ALL
        SELECT format('%s (%I)', a.privilege_type, b.attname), a.grantee, a.is_grantable
        FROM r JOIN pg_attribute b ON b.attrelid = r.oid AND b.attacl IS NOT NULL, aclexplode(b.attacl) a
    )
    SELECT format('GRANT %s ON %s TO %s%s', g.what, r.full_name,
                  CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END,
                  CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
    FROM r, given g
    ORDER BY 1
$$;

COMMENT ON FUNCTION lakets._grants_of(oid) IS
    'Rights that others have on a relation, as GRANT statements.';
