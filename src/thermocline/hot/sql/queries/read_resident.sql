-- The chunks whose rows are in PostgreSQL: the partitions, and those that a worker has detached and not dropped yet. A RollUp is one.
SELECT m.chunk_oid::bigint AS oid, pg_catalog.format('%%I.%%I', n.nspname, c.relname) AS name,
       m.range_start AS start, m.range_end AS "end",
       (pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::int)::bigint AS pages
FROM (SELECT chunk_oid, chronotable_id, range_start, range_end FROM lakets._chunk_metadata WHERE status <> 'dropped'
      UNION ALL
      SELECT r.table_oid, r.id, '0002-01-01 00:00:00+00', '9998-01-01 00:00:00+00' FROM thermocline.relation r WHERE r.id < 0) m
JOIN pg_catalog.pg_class c ON c.oid = m.chunk_oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE m.chronotable_id = %(table)s
ORDER BY m.range_start;
