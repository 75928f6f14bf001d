-- Every ChronoTable, or the one of this name.
SELECT r.id, pg_catalog.format('%%I.%%I', r.schema_name, r.table_name)
FROM lakets._chronotable_registry r
WHERE %(table)s::text IS NULL OR r.id = lakets._chronotable_id(%(table)s, %(schema)s)
ORDER BY r.id;
