-- The transactions that use a table or one of its chunks now. A detach, or the drop after it, would have to wait for them.
SELECT DISTINCT l.virtualtransaction
FROM pg_catalog.pg_locks l
WHERE l.locktype = 'relation' AND l.relation IN (%(table)s::oid, %(chunk)s::oid)
  AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database());
