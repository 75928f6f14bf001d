-- Waits for the transactions that are open now. Not undone by a rollback.
SELECT lsn::text FROM pg_catalog.pg_create_logical_replication_slot(%(slot)s, 'pgoutput');
