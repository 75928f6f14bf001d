-- Traps that have, or had, late rows, of one table or of all; each with its oldest settled position.
SELECT t.trap_oid::bigint AS oid, pg_catalog.format('%%I.%%I', n.nspname, c.relname) AS trap,
       pg_catalog.format('%%I.%%I', r.schema_name, r.table_name) AS "table", t.range_start, t.range_end, t.size_bytes AS bytes,
       thermocline._estimated_rows(c.oid, c.reltuples) AS rows
FROM thermocline.trap t
JOIN lakets._chronotable_registry r ON r.id = t.chronotable_id
JOIN pg_catalog.pg_class c ON c.oid = t.trap_oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE t.size_bytes > 0 AND (%(table)s::text IS NULL OR (r.schema_name = %(schema)s AND r.table_name = %(table)s))
ORDER BY r.schema_name, r.table_name, t.range_start;
