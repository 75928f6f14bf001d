-- What a table has that LIKE does not copy, as statements to run once its successor carries its name: keys, indexes and their statistics
-- targets, foreign keys, row security, rights (those on the sequences of identity columns too), comments, triggers, owner and views. Built before anything is renamed, so that every
-- name is still the old one. Triggers come after the rows: they fired for them long ago.
CREATE OR REPLACE FUNCTION lakets._statements_after_conversion(p_table oid) RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH t AS (
        SELECT c.*, format('%I.%I', n.nspname, c.relname) AS full_name
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = p_table
    ), identities AS (
        SELECT s.oid AS sequence FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
        WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = p_table AND d.deptype = 'i'
    ), statements (step, name, statement) AS (
        SELECT CASE k.contype WHEN 'f' THEN 3 ELSE 1 END, k.conname::text,
               format('ALTER TABLE %s ADD CONSTRAINT %I %s', t.full_name, k.conname,
                      CASE WHEN k.contype = 'f' OR i.reloptions IS NULL THEN d.definition  -- which leaves out the options of the index
                           ELSE regexp_replace(d.definition, '(( DEFERRABLE)?( INITIALLY DEFERRED)?)$',
                                               format(' WITH (%s)\1', thermocline._option_list(i.reloptions))) END)
        FROM t JOIN pg_constraint k ON k.conrelid = t.oid AND k.contype IN ('p', 'u', 'f')
        LEFT JOIN pg_class i ON i.oid = k.conindid,
             LATERAL (SELECT pg_get_constraintdef(k.oid) AS definition) d
        UNION ALL
        SELECT 2, i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid)
        FROM t JOIN pg_index i ON i.indrelid = t.oid
        WHERE NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = t.oid)
        UNION ALL
        SELECT 3, i.indexrelid::regclass::text,
               format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS %s', i.indexrelid::regclass, a.attnum, a.attstattarget)
        FROM t JOIN pg_index i ON i.indrelid = t.oid JOIN pg_attribute a ON a.attrelid = i.indexrelid AND a.attstattarget >= 0
        UNION ALL
        SELECT 4, p.polname::text,
               format('CREATE POLICY %I ON %s AS %s FOR %s TO %s', p.polname, t.full_name,
                      CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
                      CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE'
                                    WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
                      (SELECT string_agg(CASE role WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(role)) END, ', ')
                       FROM unnest(p.polroles) role))
               || coalesce(' USING (' || pg_get_expr(p.polqual, p.polrelid) || ')', '')
               || coalesce(' WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')', '')
        FROM t JOIN pg_policy p ON p.polrelid = t.oid
        UNION ALL
        SELECT 5, 'enable', format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t.full_name) FROM t WHERE t.relrowsecurity
        UNION ALL
        SELECT 5, 'force', format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', t.full_name) FROM t WHERE t.relforcerowsecurity
        UNION ALL
        SELECT 6, g.statement, g.statement FROM (SELECT p_table UNION ALL SELECT sequence FROM identities) r (oid), lakets._grants_of(r.oid) g
        UNION ALL
        SELECT 7, '', c.statement FROM lakets._comments_of(p_table) c WHERE c.statement LIKE 'COMMENT ON TABLE%'
        UNION ALL
        SELECT 7, '', c.statement FROM identities i, lakets._comments_of(i.sequence) c
        UNION ALL
        SELECT 7, k.conname::text, format('COMMENT ON CONSTRAINT %I ON %s IS %L', k.conname, t.full_name, d.said)
        FROM t JOIN pg_constraint k ON k.conrelid = t.oid AND k.contype IN ('p', 'u', 'f'),
             LATERAL (SELECT obj_description(k.oid, 'pg_constraint') AS said) d WHERE d.said IS NOT NULL
        UNION ALL
        SELECT 7, i.indexrelid::regclass::text, format('COMMENT ON INDEX %s IS %L', i.indexrelid::regclass, d.said)
        FROM t JOIN pg_index i ON i.indrelid = t.oid,
             LATERAL (SELECT obj_description(i.indexrelid, 'pg_class') AS said) d WHERE d.said IS NOT NULL
        UNION ALL
        SELECT 7, p.polname::text, format('COMMENT ON POLICY %I ON %s IS %L', p.polname, t.full_name, d.said)
        FROM t JOIN pg_policy p ON p.polrelid = t.oid,
             LATERAL (SELECT obj_description(p.oid, 'pg_policy') AS said) d WHERE d.said IS NOT NULL
        UNION ALL
        SELECT 8, lpad(o.at::text, 6), o.statement FROM lakets._triggers_of(p_table) WITH ORDINALITY o (statement, at)
        UNION ALL
        SELECT 9, '', format('ALTER TABLE %s OWNER TO %I', t.full_name, pg_get_userbyid(t.relowner)) FROM t
        UNION ALL
        SELECT 10, lpad(o.at::text, 6), o.statement FROM lakets._views_anew(p_table) WITH ORDINALITY o (statement, at)
    )
    SELECT coalesce(array_agg(statement ORDER BY step, name), '{}') FROM statements
$$;

COMMENT ON FUNCTION lakets._statements_after_conversion(oid) IS
    'Statements that give the successor of a table what LIKE does not copy, and make its views anew.';
