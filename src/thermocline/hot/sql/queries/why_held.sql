-- Who holds a chunk so that it cannot be dropped: sessions with a lock on it, and since when their transactions are open.
SELECT DISTINCT l.pid, coalesce(a.usename, '')::text, coalesce(a.application_name, ''), a.xact_start, a.state
FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.relation = %(chunk)s::oid AND l.granted AND l.pid <> pg_catalog.pg_backend_pid()
  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
ORDER BY a.xact_start;
