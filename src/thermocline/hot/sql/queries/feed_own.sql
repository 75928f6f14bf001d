-- The lock lasts as long as the session; the epoch tells a feed that has lost it that another one has come.
SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended('thermocline feed', 0));
