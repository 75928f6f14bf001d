-- The triggers on tables of ours that call functions of ours.
SELECT t.tgname, n.nspname, c.relname
FROM pg_catalog.pg_trigger t
JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid JOIN pg_catalog.pg_namespace f ON f.oid = p.pronamespace
WHERE NOT t.tgisinternal AND n.nspname = ANY (%(schemas)s) AND f.nspname = ANY (%(schemas)s);
