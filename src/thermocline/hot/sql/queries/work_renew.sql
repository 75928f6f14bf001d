-- Those of our claims that are still ours get a new lease; each is told with whether it has got it. One that somebody has locked is
-- passed over, so that the others need not wait for it. Locked in their order, as ends do.
WITH held AS (
    SELECT u.id, u.lease_epoch
    FROM thermocline.work_unit u
    JOIN unnest(%(ids)s::bigint[], %(epochs)s::bigint[]) h (id, epoch) ON u.id = h.id AND u.lease_epoch = h.epoch
    WHERE u.owner = %(owner)s AND u.status = 'claimed'
), free AS (
    SELECT u.id
    FROM thermocline.work_unit u
    JOIN unnest(%(ids)s::bigint[], %(epochs)s::bigint[]) h (id, epoch) ON u.id = h.id AND u.lease_epoch = h.epoch
    WHERE u.owner = %(owner)s AND u.status = 'claimed'
    ORDER BY u.id
    FOR NO KEY UPDATE OF u SKIP LOCKED
), renewed AS (
    UPDATE thermocline.work_unit u
    SET lease_until = pg_catalog.now() + %(lease)s
    FROM free f WHERE u.id = f.id
    RETURNING u.id
)
SELECT h.id, h.lease_epoch, r.id IS NOT NULL FROM held h LEFT JOIN renewed r ON r.id = h.id;
