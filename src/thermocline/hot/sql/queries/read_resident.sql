-- The chunks whose rows are in PostgreSQL: the partitions, and those that a worker has detached and not dropped yet. A RollUp is one.
SELECT m.part_oid::bigint AS oid, pg_catalog.format('%%I.%%I', n.nspname, c.relname) AS name,
       m.range_start AS start, m.range_end AS "end",
       (pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::int)::bigint AS pages
FROM thermocline.resident_part m
JOIN pg_catalog.pg_class c ON c.oid = m.part_oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE m.id = %(table)s
ORDER BY m.range_start;
