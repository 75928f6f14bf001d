-- Every table in these schemas, qualified.
SELECT n.nspname || '.' || c.relname
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY (%(schemas)s) AND c.relkind IN ('r', 'p', 'f')
ORDER BY 1;
