-- Units whose last attempt ended with the death of its worker. One that was claimed with others gets another one, alone.
WITH lost AS (
    SELECT u.id FROM thermocline.work_unit u
    WHERE u.status IN ('pending', 'claimed') AND coalesce(u.lease_until, u.not_before) <= pg_catalog.now()
      AND u.status = 'claimed' AND NOT u.shared AND u.attempt >= u.max_attempts
    FOR UPDATE SKIP LOCKED
)
UPDATE thermocline.work_unit u
SET status = 'dead', lease_until = NULL, ended_at = pg_catalog.now(),
    last_error = pg_catalog.format('its worker %s let the lease run out, as in %s attempts before', u.owner, u.attempt - 1)
FROM lost WHERE u.id = lost.id
RETURNING u.id, u.kind, u.chronotable_id, u.attempt;
