-- A trap with what is needed to compare it with the lake.
SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname) AS name, r.id AS table_id,
       pg_catalog.format('%%I.%%I', r.schema_name, r.table_name) AS source, t.range_start, t.range_end, r.time_column,
       s.status, s.lake_table, s.lake_snapshot
FROM thermocline.trap t
JOIN lakets._chronotable_registry r ON r.id = t.chronotable_id
JOIN pg_catalog.pg_class c ON c.oid = t.trap_oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN thermocline.synced_table s ON s.chronotable_id = r.id
WHERE t.trap_oid = %(trap)s::oid;
