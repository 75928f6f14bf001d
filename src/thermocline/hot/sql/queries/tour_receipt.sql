SELECT r.chunk_name, r.row_count, r.position::text, r.lake_snapshot, r.hash_one::text
FROM thermocline.receipt r JOIN lakets._chronotable_registry t ON t.id = r.chronotable_id
WHERE t.schema_name = 'thermocline_demo' ORDER BY r.id DESC LIMIT 1;
