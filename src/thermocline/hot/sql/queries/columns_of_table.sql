-- The columns of a table with the type that each has in the end, and how that type is sent. Domains are resolved to
-- their base without its length or precision, as the stream shows them.
WITH RECURSIVE bases AS (
    SELECT a.attnum, a.attname, a.atttypid AS type, a.atttypmod AS typmod
    FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = %(table)s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    UNION ALL
    SELECT b.attnum, b.attname, t.typbasetype, -1
    FROM bases b JOIN pg_catalog.pg_type t ON t.oid = b.type WHERE t.typtype = 'd'
)
SELECT b.attname, b.type::bigint, b.typmod, f.proname
FROM bases b
JOIN pg_catalog.pg_type t ON t.oid = b.type AND t.typtype <> 'd'
LEFT JOIN pg_catalog.pg_proc f ON f.oid = t.typsend
ORDER BY b.attnum;
