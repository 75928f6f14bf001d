-- The end of a claim, if it is still ours.
UPDATE thermocline.work_unit u
SET status = %(status)s, lease_until = NULL, not_before = pg_catalog.now() + %(delay)s,
    attempt = u.attempt - CASE WHEN %(counts)s THEN 0 ELSE 1 END,
    last_error = %(error)s, result = %(result)s,
    ended_at = CASE WHEN %(status)s <> 'pending' THEN pg_catalog.now() END
WHERE u.id = %(id)s AND u.lease_epoch = %(epoch)s AND u.owner = %(owner)s AND u.status = 'claimed'
RETURNING u.id;
