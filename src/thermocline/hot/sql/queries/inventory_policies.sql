-- Every policy, in the words in which it was given.
SELECT pg_catalog.format('%I.%I', r.schema_name, r.table_name) AS name, p.policy_type, p.config ->> 'after', p.config ->> 'tier_after',
       p.config ->> 'drop_after', p.enabled, p.last_run_at
FROM lakets._policy_registry p
JOIN lakets._chronotable_registry r ON r.id = p.chronotable_id
ORDER BY name, p.policy_type;
