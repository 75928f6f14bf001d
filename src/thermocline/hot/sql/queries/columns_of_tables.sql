-- The columns of tables with the type that each has in the end, how that type is sent, and why it cannot be kept, if so. Domains are resolved to
-- their base without its length or precision, as the stream shows them; generated columns are here where they are in the stream. The number of a chunk's column is that of its table.
WITH RECURSIVE bases AS (
    SELECT a.attrelid, a.attnum, coalesce(p.attnum, a.attnum) AS number, a.attname, a.atttypid AS type, a.atttypmod AS typmod
    FROM pg_catalog.pg_attribute a
    LEFT JOIN lakets._chunk_metadata m ON m.chunk_oid = a.attrelid AND m.status <> 'dropped'
    LEFT JOIN lakets._chronotable_registry r ON r.id = m.chronotable_id
    LEFT JOIN pg_catalog.pg_attribute p
        ON p.attrelid = r.table_oid AND p.attname = a.attname AND p.attnum > 0 AND NOT p.attisdropped
    WHERE a.attrelid = ANY (%(tables)s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
      AND (a.attgenerated = '' OR (a.attgenerated = 's' AND pg_catalog.current_setting('server_version_num')::int >= 180000))
    UNION ALL
    SELECT b.attrelid, b.attnum, b.number, b.attname, t.typbasetype, -1
    FROM bases b JOIN pg_catalog.pg_type t ON t.oid = b.type WHERE t.typtype = 'd'
)
SELECT b.attrelid::bigint, b.attname, b.type::bigint, b.typmod, f.proname, b.number,
       CASE WHEN b.type <> ALL (%(known)s::oid[]) THEN thermocline._reason_against_type(b.type) END
FROM bases b
JOIN pg_catalog.pg_type t ON t.oid = b.type AND t.typtype <> 'd'
LEFT JOIN pg_catalog.pg_proc f ON f.oid = t.typsend
ORDER BY b.attrelid, b.attnum;
