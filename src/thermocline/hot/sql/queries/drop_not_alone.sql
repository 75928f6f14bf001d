-- The next worker may have the chunk.
SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtextextended('thermocline drop ' || %(chunk)s::text, 0));
