-- The ends of claims, of those that are still ours. Locked in their order, as renewals do, so that neither waits for the other in turn.
-- What is done now settles the same work that failed before.
WITH ours AS (
    SELECT u.id, e.status, e.delay, e.counts, e.error, e.result
    FROM thermocline.work_unit u
    JOIN unnest(%(ids)s::bigint[], %(epochs)s::bigint[], %(statuses)s::text[], %(delays)s::interval[], %(counts)s::boolean[],
                %(errors)s::text[], %(results)s::jsonb[]) e (id, epoch, status, delay, counts, error, result)
      ON u.id = e.id AND u.lease_epoch = e.epoch
    WHERE u.owner = %(owner)s AND u.status = 'claimed'
    ORDER BY u.id
    FOR NO KEY UPDATE OF u
), ended AS (
    UPDATE thermocline.work_unit u
    SET status = o.status, lease_until = NULL, not_before = pg_catalog.now() + o.delay, attempt = u.attempt - (NOT o.counts)::int,
        last_error = CASE WHEN o.status = 'pending' THEN coalesce(o.error, u.last_error) ELSE o.error END, result = o.result,
        ended_at = CASE WHEN o.status <> 'pending' THEN pg_catalog.now() END
    FROM ours o WHERE u.id = o.id
    RETURNING u.id, u.lease_epoch, u.status, u.kind, u.chronotable_id, u.scope
), settled AS (
    UPDATE thermocline.work_unit b SET settled_by = e.id
    FROM ended e
    WHERE e.status = 'done' AND b.status IN ('failed', 'dead') AND b.settled_by IS NULL
      AND b.kind = e.kind AND b.chronotable_id IS NOT DISTINCT FROM e.chronotable_id AND b.scope = e.scope
)
SELECT e.id, e.lease_epoch FROM ended e;
