-- Tables that the stream passes by; their reasons are in feed_status_tables.
SELECT pg_catalog.format('%I.%I', r.schema_name, r.table_name) AS name
FROM thermocline.synced_table s JOIN thermocline.relation r ON r.id = s.chronotable_id
WHERE s.status = 'SKIPPED'
ORDER BY name;
