SELECT end_lsn::text FROM pg_catalog.pg_replication_slot_advance(%(slot)s, %(to)s::pg_lsn);
