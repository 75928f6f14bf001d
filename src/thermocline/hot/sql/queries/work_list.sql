-- Units: those of a status, a kind or a table, if asked for. Those that are open come first, then the newest that ended; each open one
-- with what it waits for.
SELECT u.id, u.kind, CASE WHEN u.chronotable_id IS NULL THEN '' WHEN r.id IS NULL THEN 'dropped table ' || u.chronotable_id
                        ELSE pg_catalog.format('%%I.%%I', r.schema_name, r.table_name) END,
       u.scope, u.status, u.attempt, u.max_attempts, u.owner,
       CASE WHEN u.status = 'claimed' THEN u.lease_until WHEN u.status = 'pending' THEN u.not_before ELSE u.ended_at END,
       thermocline._waits_for(u), u.settled_by,
       u.last_error
FROM thermocline.work_unit u LEFT JOIN lakets._chronotable_registry r ON r.id = u.chronotable_id
WHERE (%(status)s::text IS NULL OR u.status = %(status)s) AND (%(kind)s::text IS NULL OR u.kind = %(kind)s)
  AND (%(table)s::text IS NULL OR u.chronotable_id = lakets._chronotable_id(%(table)s, %(schema)s))
ORDER BY u.ended_at IS NOT NULL, u.id DESC
LIMIT %(most)s;
