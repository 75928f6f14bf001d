-- Functions in our schemas that this transaction has written, by the names under which they are recorded.
SELECT pg_catalog.format('function %%I.%%I(%%s)', n.nspname, p.proname, pg_catalog.oidvectortypes(p.proargtypes))
FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = ANY (%(schemas)s)
  AND p.xmin::text = (pg_catalog.pg_current_xact_id()::xid)::text;
