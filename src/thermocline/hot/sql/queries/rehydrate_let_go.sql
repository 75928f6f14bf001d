-- Chunks that came back, are no longer kept, and that no policy has come to.
SELECT m.chunk_oid::bigint, m.chunk_name, m.range_start, m.range_end
FROM lakets._chunk_metadata m
WHERE m.chronotable_id = %(table)s AND m.status <> 'dropped' AND m.kept_until <= pg_catalog.clock_timestamp()
  AND NOT EXISTS (SELECT FROM lakets._policy_registry p
                  WHERE p.chronotable_id = m.chronotable_id AND p.enabled AND p.policy_type IN ('retention', 'tiered_retention')
                    AND m.range_end <= pg_catalog.now() - (p.config ->> 'drop_after')::interval)
ORDER BY m.range_start;
