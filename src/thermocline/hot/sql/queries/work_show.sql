-- Everything about a unit.
SELECT u.id, u.kind, CASE WHEN r.id IS NOT NULL THEN pg_catalog.format('%%I.%%I', r.schema_name, r.table_name)
                          WHEN u.chronotable_id IS NOT NULL THEN 'dropped table ' || u.chronotable_id END AS "table", u.scope, u.status,
       thermocline._waits_for(u) AS waits_for, u.settled_by, u.destructive, u.attempt, u.max_attempts, u.owner, u.lease_epoch, u.lease_until, u.not_before, u.made_at, u.made_by, u.claimed_at, u.ended_at, u.last_error,
       u.lane, u.payload, u.result, u.plan_id, p.policy, p.lines AS plan
FROM thermocline.work_unit u
LEFT JOIN lakets._chronotable_registry r ON r.id = u.chronotable_id
LEFT JOIN thermocline.plan p ON p.id = u.plan_id
WHERE u.id = %(id)s;
