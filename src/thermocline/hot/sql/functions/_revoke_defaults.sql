-- Takes from a table that was just made what ALTER DEFAULT PRIVILEGES has given to others: nobody is to read past the table that it
-- belongs to or replaces.
CREATE OR REPLACE FUNCTION thermocline._revoke_defaults(p_table oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_grantee text;
BEGIN
    FOR v_grantee IN
        SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END
        FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = p_table AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %s', p_table::regclass, v_grantee);
    END LOOP;
END
$$;

COMMENT ON FUNCTION thermocline._revoke_defaults(oid) IS 'Takes default privileges of others from a new table.';
