-- One worker at a time for a range. The lock goes with the session, so a crashed worker holds none.
SELECT pg_catalog.pg_try_advisory_lock(
    pg_catalog.hashtextextended(pg_catalog.format('thermocline rehydrate %%s %%s', %(table)s::int, extract(epoch FROM %(start)s::timestamptz)), 0));
