-- What a unit is about to do; written before it does it.
WITH made AS (
    INSERT INTO thermocline.plan (work_unit_id, lease_epoch, kind, chronotable_id, object, destructive, policy, lines)
    VALUES (%(id)s, %(epoch)s, %(kind)s, %(table)s, %(object)s, %(destructive)s, %(policy)s, %(lines)s)
    RETURNING id
)
UPDATE thermocline.work_unit u SET plan_id = made.id FROM made WHERE u.id = %(id)s
RETURNING made.id;
