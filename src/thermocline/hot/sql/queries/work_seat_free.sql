SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtext('thermocline seat ' || %(class)s), %(seat)s::int);
