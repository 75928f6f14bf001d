-- A unit that is broken, cancelled or in back-off may be claimed at once, with all its attempts before it.
UPDATE thermocline.work_unit u
SET status = 'pending', attempt = 0, not_before = pg_catalog.now(), ended_at = NULL, schedule_id = NULL, settled_by = NULL
WHERE u.id = %(id)s AND u.status IN ('pending', 'failed', 'dead', 'cancelled')
RETURNING u.id;
