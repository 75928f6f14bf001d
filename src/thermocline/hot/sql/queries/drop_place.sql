-- Where a chunk stands: its own name, its table's, and how far it is detached. No row if it is not there.
SELECT cn.nspname AS chunk_schema, c.relname AS chunk_name, tn.nspname AS table_schema, tc.relname AS table_name,
       t.table_oid::bigint AS table_oid, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS bound,
       CASE WHEN i.inhrelid IS NULL THEN 'detached' WHEN i.inhdetachpending THEN 'pending' ELSE 'attached' END AS state
FROM lakets._chunk_metadata m
JOIN lakets._chronotable_registry t ON t.id = m.chronotable_id
JOIN pg_catalog.pg_class c ON c.oid = m.chunk_oid JOIN pg_catalog.pg_namespace cn ON cn.oid = c.relnamespace
JOIN pg_catalog.pg_class tc ON tc.oid = t.table_oid JOIN pg_catalog.pg_namespace tn ON tn.oid = tc.relnamespace
LEFT JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = t.table_oid
WHERE m.chunk_oid = %(chunk)s AND m.status <> 'dropped';
