-- Tables with a policy that flags chunks.
SELECT DISTINCT p.chronotable_id FROM lakets._policy_registry p
WHERE p.enabled AND p.policy_type IN ('tiering', 'tiered_retention') ORDER BY 1;
