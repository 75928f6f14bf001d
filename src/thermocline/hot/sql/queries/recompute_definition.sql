-- A RollUp as its query is kept, with its source and all aggregates that a query can name.
SELECT g.template, g.source_alias, g.bucket_expression, b.atttypid::regtype::text, g.rollup_oid::bigint, g.source_oid::bigint,
       g.source_time_column, t.schema_name, t.table_name, s.lake_table,
       ARRAY(SELECT CASE WHEN n.nspname = 'pg_catalog' THEN '' ELSE pg_catalog.quote_ident(n.nspname) || '.' END || pg_catalog.quote_ident(p.proname)
             FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE p.prokind = 'a')
FROM lakets._rollup_registry g
JOIN lakets._chronotable_registry t ON t.id = g.source_chronotable_id
JOIN pg_catalog.pg_attribute b ON b.attrelid = g.rollup_oid AND b.attname = g.bucket_column
LEFT JOIN thermocline.synced_table s ON s.chronotable_id = t.id
WHERE g.id = %(id)s;
