-- Chunks that a retention policy no longer keeps, oldest first, and the first thing that speaks against dropping each.
SELECT m.chunk_oid::bigint AS chunk, m.chunk_name AS name, t.schema_name, t.table_name, m.range_start, m.range_end,
       coalesce(pg_catalog.pg_total_relation_size(m.chunk_oid), m.size_bytes, 0) AS size_bytes,
       g.gated, d.chunk_oid IS NOT NULL AS begun, v.code, v.message, v.next_step,
       pg_catalog.format('%%s policy %%s: drop_after %%s', p.policy_type, p.id, p.config ->> 'drop_after') AS policy
FROM lakets._policy_registry p
JOIN lakets._chronotable_registry t ON t.id = p.chronotable_id
JOIN lakets._chunk_metadata m ON m.chronotable_id = t.id AND m.status <> 'dropped'
     AND m.range_end <= pg_catalog.now() - (p.config ->> 'drop_after')::interval
CROSS JOIN LATERAL (SELECT lakets._is_gated(t.id) AS gated) g
LEFT JOIN thermocline.detaching d ON d.chunk_oid = m.chunk_oid
LEFT JOIN LATERAL (
    SELECT * FROM thermocline._chunk_verdict(m.chunk_oid, NULL, g.gated, %(with_rows)s) LIMIT 1
) v ON d.chunk_oid IS NULL
WHERE p.policy_type IN ('retention', 'tiered_retention') AND p.enabled
  AND (%(table)s::text IS NULL OR (t.table_name = %(table)s AND t.schema_name = %(schema)s))
ORDER BY m.range_start, m.chunk_oid;
