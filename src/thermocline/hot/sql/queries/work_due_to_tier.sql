-- The tiering policy of a table, in words, if it has come to a chunk that is not flagged yet.
SELECT pg_catalog.format('%%s policy %%s: tier_after %%s', p.policy_type, p.id, a.after)
FROM lakets._policy_registry p,
     LATERAL (SELECT coalesce(p.config ->> 'after', p.config ->> 'tier_after') AS after) a
WHERE p.chronotable_id = %(table)s AND p.enabled AND p.policy_type IN ('tiering', 'tiered_retention')
  AND EXISTS (SELECT FROM lakets._chunk_metadata m
              WHERE m.chronotable_id = p.chronotable_id AND m.status = 'active' AND m.range_end <= pg_catalog.now() - a.after::interval);
