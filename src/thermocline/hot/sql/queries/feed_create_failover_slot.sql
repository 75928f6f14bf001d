-- The same from PostgreSQL 17 on: a standby that keeps its slots in step has this one, too, and can be promoted with it.
SELECT lsn::text FROM pg_catalog.pg_create_logical_replication_slot(%(slot)s, 'pgoutput', failover => true);
