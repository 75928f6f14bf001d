-- Functions in our schemas that this transaction has not written: an earlier release left them.
SELECT p.oid::regprocedure::text
FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = ANY (%(schemas)s)
  AND p.xmin::text <> (pg_catalog.pg_current_xact_id()::xid)::text
ORDER BY p.prokind DESC, 1;
