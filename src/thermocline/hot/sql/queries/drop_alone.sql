-- One worker at a time for a chunk. The lock goes with the session, so a crashed worker holds none.
SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended('thermocline drop ' || %(chunk)s::text, 0));
