-- Tables with a policy that lets chunks go, and those of which a drop was begun.
SELECT p.chronotable_id FROM lakets._policy_registry p
WHERE p.enabled AND p.policy_type IN ('retention', 'tiered_retention')
UNION
SELECT d.chronotable_id FROM thermocline.detaching d
ORDER BY 1;
