-- Claims whose worker died, which nobody has taken over. The last attempt of a unit makes it dead; one that was claimed with others gets
-- another one, alone. One with a lane goes back and leaves its lane to others: it may have to wait, for its window, for whoever
-- stopped it, for a node that serves its kind.
WITH lost AS (
    SELECT u.id FROM thermocline.work_unit u
    WHERE u.status IN ('pending', 'claimed') AND coalesce(u.lease_until, u.not_before) <= pg_catalog.now()
      AND u.status = 'claimed' AND NOT u.shared AND (u.lane IS NOT NULL OR u.attempt >= u.max_attempts)
    FOR UPDATE SKIP LOCKED
), ended AS (
    UPDATE thermocline.work_unit u
    SET status = CASE WHEN u.attempt >= u.max_attempts THEN 'dead' ELSE 'pending' END,
        lease_until = NULL, ended_at = CASE WHEN u.attempt >= u.max_attempts THEN pg_catalog.now() END,
        not_before = CASE WHEN u.attempt >= u.max_attempts THEN u.not_before ELSE pg_catalog.now() END,
        last_error = pg_catalog.format('its worker %s let the lease run out', u.owner)
            || CASE WHEN u.attempt >= u.max_attempts THEN pg_catalog.format(', as in %s attempts before', u.attempt - 1) ELSE '' END
    FROM lost WHERE u.id = lost.id
    RETURNING u.id, u.kind, u.status
)
SELECT e.id, e.kind FROM ended e WHERE e.status = 'dead';
