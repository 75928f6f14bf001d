-- Every ChronoTable with its chunks by state, what it takes on the disk, how it stands with the lake, and what becomes of late rows.
SELECT pg_catalog.format('%I.%I', r.schema_name, r.table_name) AS name, r.time_column, r.chunk_interval::text,
       count(m.id) FILTER (WHERE m.status = 'active'), count(m.id) FILTER (WHERE m.status = 'tiered'),
       count(m.id) FILTER (WHERE m.status = 'dropped'),
       coalesce(sum(pg_catalog.pg_total_relation_size(c.oid)), 0)::bigint,
       coalesce(s.status, 'not synced'), r.late
FROM lakets._chronotable_registry r
LEFT JOIN lakets._chunk_metadata m ON m.chronotable_id = r.id
LEFT JOIN pg_catalog.pg_class c ON c.oid = m.chunk_oid AND m.status <> 'dropped'
LEFT JOIN thermocline.synced_table s ON s.chronotable_id = r.id
GROUP BY r.id, s.status
ORDER BY name;
