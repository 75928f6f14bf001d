-- A unit that is due and the time of the next one, unless another scheduler was first: then the time is not what was seen any more.
WITH mine AS (
    INSERT INTO thermocline.schedule_run AS r (kind, chronotable_id, rule, last_at, next_at)
    VALUES (%(kind)s, %(table)s, %(rule)s, %(last_at)s, %(next_at)s)
    ON CONFLICT (kind, chronotable_id) DO UPDATE
    SET rule = excluded.rule, last_at = excluded.last_at, next_at = excluded.next_at
    WHERE r.next_at = %(seen)s AND r.rule = %(seen_rule)s
    RETURNING r.kind
)
INSERT INTO thermocline.work_unit (kind, chronotable_id, destructive, lane, schedule_id)
SELECT m.kind, %(table)s::int, %(destructive)s, %(lane)s, %(schedule)s FROM mine m WHERE %(now_due)s
ON CONFLICT (kind, chronotable_id, scope) WHERE status IN ('pending', 'claimed') DO NOTHING
RETURNING id;
