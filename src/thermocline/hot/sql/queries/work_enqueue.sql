-- A unit of work, unless the same one is open already.
INSERT INTO thermocline.work_unit (kind, chronotable_id, scope, payload, destructive, lane, max_attempts, schedule_id)
VALUES (%(kind)s, %(table)s, %(scope)s, %(payload)s, %(destructive)s, %(lane)s, %(max_attempts)s, %(schedule)s)
ON CONFLICT (kind, chronotable_id, scope) WHERE status IN ('pending', 'claimed') DO NOTHING
RETURNING id;
