-- Drops that were begun, oldest first, and whether they are still wanted: what a policy asked for, by the text of drop_candidates, only
-- while that policy asks for it.
SELECT d.chunk_oid::bigint, d.gated, d.reason,
       b.policy IS NULL
       OR EXISTS (SELECT FROM lakets._policy_registry p
                  WHERE p.id = b.policy AND p.chronotable_id = d.chronotable_id AND p.enabled
                    AND NOT EXISTS (SELECT FROM lakets._chunk_metadata m
                                    WHERE m.chunk_oid = d.chunk_oid AND m.status <> 'dropped'
                                      AND m.range_end > pg_catalog.now() - (p.config ->> 'drop_after')::interval))
FROM thermocline.detaching d
CROSS JOIN LATERAL (SELECT (pg_catalog.regexp_match(d.reason, '^\w+ policy (\d+): '))[1]::int AS policy) b
ORDER BY d.recorded_at;
