-- How types that are not built in are sent: an enum as text, a domain as its base.
SELECT t.oid::bigint, f.proname
FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_proc f ON f.oid = t.typsend
WHERE t.oid >= 16384 AND t.typtype IN ('b', 'd', 'e');
