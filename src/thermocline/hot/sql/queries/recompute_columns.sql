-- The columns of a table: their types, digits if they are numbers with a limit, and by which rules texts are equal and sorted.
SELECT a.attname, CASE WHEN t.typtype = 'e' THEN 'enum' ELSE t.typname END, 
       CASE WHEN n.nspname = 'pg_catalog' THEN pg_catalog.format_type(a.atttypid, NULL)
            ELSE pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(t.typname) END,
       CASE WHEN a.atttypid = 'numeric'::regtype AND a.atttypmod >= 4 THEN (a.atttypmod - 4) >> 16 END,
       -- Digits behind the point: eleven bits with a sign.
       CASE WHEN a.atttypid = 'numeric'::regtype AND a.atttypmod >= 4 THEN (((a.atttypmod - 4) & 2047) # 1024) - 1024 END,
       coalesce(o.collisdeterministic, true),
       pg_catalog.getdatabaseencoding() = 'UTF8'
       AND coalesce(o.collcollate IN ('C', 'POSIX') OR o.collprovider = 'b'
                    OR (o.collprovider = 'd' AND (d.datlocprovider = 'b' OR d.datlocprovider = 'c' AND d.datcollate IN ('C', 'POSIX'))), false)
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_catalog.pg_collation o ON o.oid = a.attcollation
JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()
WHERE a.attrelid = %(table)s::bigint::oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum;
