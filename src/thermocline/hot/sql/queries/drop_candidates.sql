-- Chunks that a retention policy no longer keeps, oldest first, and the first thing that speaks against dropping each.
SELECT m.chunk_oid::bigint AS chunk, m.chunk_name AS name, t.schema_name, t.table_name, m.range_start, m.range_end,
       coalesce(pg_catalog.pg_total_relation_size(m.chunk_oid), m.size_bytes, 0) AS size_bytes, m.status AS state,
       thermocline._estimated_rows(c.oid, c.reltuples) AS row_count, g.gated, d.chunk_oid IS NOT NULL AS begun, v.code, v.message, v.next_step,
       p.id AS policy_id, pg_catalog.format('%%s policy %%s: drop_after %%s', p.policy_type, p.id, p.config ->> 'drop_after') AS policy
FROM lakets._policy_registry p
JOIN lakets._chronotable_registry t ON t.id = p.chronotable_id
JOIN lakets._chunk_metadata m ON m.chronotable_id = t.id AND m.status <> 'dropped'
     AND m.range_end <= pg_catalog.now() - (p.config ->> 'drop_after')::interval
CROSS JOIN LATERAL (SELECT lakets._is_gated(t.id) AS gated) g
LEFT JOIN pg_catalog.pg_class c ON c.oid = m.chunk_oid
LEFT JOIN thermocline.detaching d ON d.chunk_oid = m.chunk_oid
LEFT JOIN LATERAL (
    SELECT 'kept' AS code, w.message, w.next_step FROM thermocline._reason_words('kept') w WHERE m.kept_until > pg_catalog.clock_timestamp()
    UNION ALL
    SELECT x.code, x.message, x.next_step
    FROM unnest(CASE WHEN m.kept_until > pg_catalog.clock_timestamp() THEN NULL ELSE ARRAY[m.chunk_oid] END) o (oid),
         LATERAL thermocline._chunk_verdict(o.oid, NULL, g.gated, %(with_rows)s) x
    LIMIT 1
) v ON d.chunk_oid IS NULL
WHERE p.policy_type IN ('retention', 'tiered_retention') AND p.enabled
  AND (%(table)s::text IS NULL OR (t.table_name = %(table)s AND t.schema_name = %(schema)s))
ORDER BY m.range_start, m.chunk_oid;
