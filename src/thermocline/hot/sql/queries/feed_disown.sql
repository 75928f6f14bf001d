-- The feed ends in good order: the stream has no owner from now on, however long its session takes to end.
SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtextextended('thermocline feed', 0));
