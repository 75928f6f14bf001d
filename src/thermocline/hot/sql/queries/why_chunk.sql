-- Everything that is known of a chunk's way out: of one that is in PostgreSQL, or else of the one of that name that left last.
SELECT m.chunk_oid::bigint AS oid, m.chunk_name AS chunk, pg_catalog.format('%%s.%%s', t.schema_name, t.table_name) AS table_name,
       m.range_start, m.range_end, m.status AS state, coalesce(pg_catalog.pg_total_relation_size(m.chunk_oid), m.size_bytes, 0) AS bytes,
       lakets._is_gated(t.id) AS gated,
       (SELECT m.range_end + pg_catalog.min(coalesce(p.config ->> 'after', p.config ->> 'tier_after')::interval)
        FROM lakets._policy_registry p
        WHERE p.chronotable_id = t.id AND p.enabled AND p.policy_type IN ('tiering', 'tiered_retention')) AS tier_due,
       (SELECT m.range_end + pg_catalog.min((p.config ->> 'drop_after')::interval)
        FROM lakets._policy_registry p
        WHERE p.chronotable_id = t.id AND p.enabled AND p.policy_type IN ('retention', 'tiered_retention')) AS drop_due,
       r.id AS receipt, r.made_at AS proven_at, r.lake_checked_at, m.created_at, s.joined_at, m.last_modified_at,
       CASE WHEN m.kept_until = 'infinity' THEN 'until it is released'
            WHEN m.kept_until > pg_catalog.clock_timestamp()
            THEN 'until ' || pg_catalog.to_char(m.kept_until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"')
            WHEN m.kept_until IS NOT NULL THEN '' END AS kept,
       d.dropped_at, d.receipt_id AS dropped_on, pg_catalog.now() AS now
FROM lakets._chunk_metadata m
JOIN lakets._chronotable_registry t ON t.id = m.chronotable_id
LEFT JOIN thermocline.synced_table s ON s.chronotable_id = t.id AND s.status <> 'TERMINATED'
LEFT JOIN LATERAL (SELECT * FROM thermocline.receipt r WHERE r.chunk_oid = m.chunk_oid ORDER BY r.id DESC LIMIT 1) r ON true
LEFT JOIN thermocline.dropped_range d ON d.chronotable_id = t.id AND d.chunk_oid = m.chunk_oid
WHERE %(chunk)s IN (m.chunk_name, pg_catalog.split_part(m.chunk_name, '.', 2))
ORDER BY m.status = 'dropped', m.id DESC;
