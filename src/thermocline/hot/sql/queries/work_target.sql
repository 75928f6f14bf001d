-- The name that a table has now; no row when it is not there any more.
SELECT r.schema_name, r.table_name, pg_catalog.format('%%I.%%I', r.schema_name, r.table_name)
FROM lakets._chronotable_registry r JOIN pg_catalog.pg_class c ON c.oid = r.table_oid
WHERE r.id = %(id)s;
