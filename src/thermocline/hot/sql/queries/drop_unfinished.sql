-- Drops that were begun, oldest first, and whether they are still wanted: what a policy asked for, only while it does.
SELECT d.chunk_oid::bigint, d.gated, d.reason,
       d.policy_id IS NULL
       OR EXISTS (SELECT FROM lakets._policy_registry p
                  WHERE p.id = d.policy_id AND p.chronotable_id = d.chronotable_id AND p.enabled
                    AND NOT EXISTS (SELECT FROM lakets._chunk_metadata m
                                    WHERE m.chunk_oid = d.chunk_oid AND m.status <> 'dropped'
                                      AND m.range_end > pg_catalog.now() - (p.config ->> 'drop_after')::interval))
FROM thermocline.detaching d
ORDER BY d.recorded_at;
