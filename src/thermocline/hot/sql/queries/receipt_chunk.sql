-- A resident chunk with what is needed to compare it with the lake.
SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname) AS name, t.id AS table_id,
       pg_catalog.format('%%I.%%I', t.schema_name, t.table_name) AS source, m.range_start, m.range_end, t.time_column,
       s.status, s.lake_table, s.lake_snapshot, k.position::text AS copied_at
FROM lakets._chunk_metadata m
JOIN lakets._chronotable_registry t ON t.id = m.chronotable_id
JOIN pg_catalog.pg_class c ON c.oid = m.chunk_oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN thermocline.synced_table s ON s.chronotable_id = t.id
LEFT JOIN thermocline.chunk_copy k ON k.chunk_oid = m.chunk_oid
WHERE m.chunk_oid = %(chunk)s::oid AND m.status <> 'dropped';
