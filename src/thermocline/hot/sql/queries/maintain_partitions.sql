-- The chunks of the next time, where they are missing.
SELECT lakets._ensure_partitions(r.id, 1, lakets._chunks_ahead(r.chunk_interval, r.id))
FROM lakets._chronotable_registry r WHERE r.id = %(id)s;
