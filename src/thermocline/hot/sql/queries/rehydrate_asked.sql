-- What is wanted back, oldest first: of one table, or of all; for a node only what it has not just failed to bring.
SELECT r.chronotable_id AS table_id, pg_catalog.format('%%I.%%I', t.schema_name, t.table_name) AS source, r.range_start, r.range_end,
       coalesce(m.size_bytes, 0) AS bytes
FROM thermocline.rehydration r JOIN lakets._chronotable_registry t ON t.id = r.chronotable_id
LEFT JOIN lakets._chunk_metadata m
  ON m.chronotable_id = r.chronotable_id AND m.range_start = r.range_start AND m.status = 'dropped'
WHERE (%(table)s::int IS NULL OR r.chronotable_id = %(table)s::int)
  AND (NOT %(by_itself)s OR r.not_before <= pg_catalog.clock_timestamp())
ORDER BY r.chronotable_id, r.range_start;
