-- Tables with ranges that are wanted back from the lake, or with chunks that came back and are let go.
SELECT r.chronotable_id FROM thermocline.rehydration r WHERE r.not_before <= pg_catalog.clock_timestamp()
UNION
SELECT m.chronotable_id FROM lakets._chunk_metadata m
WHERE m.status <> 'dropped' AND m.kept_until <= pg_catalog.clock_timestamp()
  AND NOT EXISTS (SELECT FROM lakets._policy_registry p
                  WHERE p.chronotable_id = m.chronotable_id AND p.enabled AND p.policy_type IN ('retention', 'tiered_retention')
                    AND m.range_end <= pg_catalog.now() - (p.config ->> 'drop_after')::interval)
ORDER BY 1;
