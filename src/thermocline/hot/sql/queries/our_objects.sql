-- The tables, views and functions in our schemas, by names that are the same in every database and session.
SELECT pg_catalog.format('%%s %%I.%%I', CASE c.relkind WHEN 'v' THEN 'view' ELSE 'table' END, n.nspname, c.relname) AS name
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY (%(schemas)s) AND c.relkind IN ('r', 'p', 'v')
UNION ALL
SELECT pg_catalog.format('function %%I.%%I(%%s)', n.nspname, p.proname, pg_catalog.oidvectortypes(p.proargtypes))
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = ANY (%(schemas)s)
ORDER BY 1;
