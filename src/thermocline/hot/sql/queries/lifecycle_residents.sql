-- The resident chunks of a table, and whether the tiering policy has come to each.
SELECT m.chunk_oid::bigint AS oid, m.chunk_name AS name, m.range_start, m.range_end, m.status,
       coalesce(pg_catalog.pg_total_relation_size(c.oid), m.size_bytes, 0) AS size_bytes,
       thermocline._estimated_rows(c.oid, c.reltuples) AS row_count,
       EXISTS (SELECT FROM lakets._policy_registry p
               WHERE p.chronotable_id = t.id AND p.enabled AND p.policy_type IN ('tiering', 'tiered_retention')
                 AND m.range_end <= pg_catalog.now()
                     - coalesce(p.config ->> 'after', p.config ->> 'tier_after')::interval) AS due,
       coalesce(greatest(u.not_before, thermocline._prove_again(m.chunk_oid, m.last_modified_at)) > pg_catalog.clock_timestamp(),
                false) AS waits
FROM lakets._chronotable_registry t
JOIN lakets._chunk_metadata m ON m.chronotable_id = t.id AND m.status <> 'dropped'
LEFT JOIN pg_catalog.pg_class c ON c.oid = m.chunk_oid
LEFT JOIN thermocline.unproven u ON u.chunk_oid = m.chunk_oid
WHERE t.table_name = %(table)s AND t.schema_name = %(schema)s
ORDER BY m.range_start;
