-- Nobody does this unit any more. One that runs is taken from its worker, once a step behind a fence has ended; one that is broken is
-- not shown as such any more.
WITH held AS (
    SELECT u.id, u.status, u.owner FROM thermocline.work_unit u WHERE u.id = %(id)s AND u.status IN ('pending', 'claimed', 'failed', 'dead') FOR UPDATE
)
UPDATE thermocline.work_unit u
SET status = 'cancelled', lease_until = NULL, ended_at = pg_catalog.now(), last_error = pg_catalog.concat_ws('; ', pg_catalog.format('cancelled by %%s', session_user), u.last_error)
FROM held WHERE u.id = held.id
RETURNING held.status, held.owner;
