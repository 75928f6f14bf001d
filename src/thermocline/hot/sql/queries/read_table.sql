-- A ChronoTable, its history in the lake, and whether that history was ever begun.
SELECT t.id, t.table_oid::bigint, t.time_column, s.lake_table, s.lake_snapshot IS NOT NULL
FROM lakets._chronotable_registry t LEFT JOIN thermocline.synced_table s ON s.chronotable_id = t.id
WHERE t.schema_name = %(schema)s AND t.table_name = %(table)s;
