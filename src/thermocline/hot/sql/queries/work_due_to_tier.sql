-- Whether the tiering policy of a table has come to a chunk that is not flagged yet.
SELECT EXISTS (
    SELECT FROM lakets._policy_registry p
    JOIN lakets._chunk_metadata m ON m.chronotable_id = p.chronotable_id AND m.status = 'active'
    WHERE p.chronotable_id = %(table)s AND p.enabled AND p.policy_type IN ('tiering', 'tiered_retention')
      AND m.range_end <= pg_catalog.now() - coalesce(p.config ->> 'after', p.config ->> 'tier_after')::interval);
