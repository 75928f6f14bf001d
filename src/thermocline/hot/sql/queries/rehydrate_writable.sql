-- The columns of a table that are written, in their order: generated ones are not.
SELECT a.attname FROM pg_catalog.pg_attribute a
WHERE a.attrelid = %(table)s::oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
ORDER BY a.attnum;
