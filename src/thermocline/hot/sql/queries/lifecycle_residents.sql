-- The resident chunks of a table, whether the tiering policy has come to each, and the first thing against dropping it.
SELECT m.chunk_oid::bigint AS oid, m.chunk_name AS name, m.range_start, m.range_end, m.status,
       coalesce(pg_catalog.pg_total_relation_size(c.oid), m.size_bytes, 0) AS size_bytes,
       thermocline._estimated_rows(c.oid, c.reltuples) AS row_count,
       EXISTS (SELECT FROM lakets._policy_registry p
               WHERE p.chronotable_id = t.id AND p.enabled AND p.policy_type IN ('tiering', 'tiered_retention')
                 AND m.range_end <= pg_catalog.now()
                     - coalesce(p.config ->> 'after', p.config ->> 'tier_after')::interval) AS due,
       v.code, v.message, v.next_step
FROM lakets._chronotable_registry t
JOIN lakets._chunk_metadata m ON m.chronotable_id = t.id AND m.status <> 'dropped'
LEFT JOIN pg_catalog.pg_class c ON c.oid = m.chunk_oid
LEFT JOIN LATERAL (SELECT * FROM thermocline._chunk_verdict(m.chunk_oid, NULL, true, false) LIMIT 1) v ON true
WHERE t.table_name = %(table)s AND t.schema_name = %(schema)s
ORDER BY m.range_start;
