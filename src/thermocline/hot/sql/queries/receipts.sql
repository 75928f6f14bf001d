-- Receipts, the newest first, and whether each is the one that counts for its chunk.
SELECT r.id, r.chunk_name, r.range_start, r.range_end, r.row_count, r.made_at, r.made_by, r.position::text, r.lake_table, r.lake_snapshot,
       r.lake_checked_at,
       CASE WHEN m.id IS NULL THEN 'its chunk is gone'
            WHEN m.status = 'dropped' AND d.receipt_id = r.id THEN 'its chunk was dropped on it'
            WHEN m.status = 'dropped' THEN 'its chunk is dropped'
            WHEN r.id < (SELECT pg_catalog.max(n.id) FROM thermocline.receipt n WHERE n.chunk_oid = r.chunk_oid) THEN 'there is a newer one'
            ELSE 'it is the newest' END AS standing
FROM thermocline.receipt r
JOIN lakets._chronotable_registry t ON t.id = r.chronotable_id
LEFT JOIN lakets._chunk_metadata m ON m.chunk_oid = r.chunk_oid AND m.chronotable_id = r.chronotable_id
LEFT JOIN thermocline.dropped_range d ON d.chronotable_id = r.chronotable_id AND d.chunk_oid = r.chunk_oid
WHERE (%(table)s::text IS NULL OR (t.table_name = %(table)s AND t.schema_name = %(schema)s))
  AND (%(chunk)s::text IS NULL OR %(chunk)s IN (r.chunk_name, pg_catalog.split_part(r.chunk_name, '.', 2)))
ORDER BY r.id DESC
LIMIT %(most)s;
