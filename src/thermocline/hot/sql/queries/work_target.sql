-- The name that a table has now, whatever it was registered under; no row when it is not there any more.
SELECT n.nspname::text, c.relname::text, pg_catalog.format('%%I.%%I', n.nspname, c.relname)
FROM lakets._chronotable_registry r
JOIN pg_catalog.pg_class c ON c.oid = r.table_oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE r.id = %(id)s;
