-- Those of our claims that are still ours get a new lease. Locked in their order, as ends do.
WITH ours AS (
    SELECT u.id
    FROM thermocline.work_unit u
    JOIN unnest(%(ids)s::bigint[], %(epochs)s::bigint[]) held (id, epoch) ON u.id = held.id AND u.lease_epoch = held.epoch
    WHERE u.owner = %(owner)s AND u.status = 'claimed'
    ORDER BY u.id
    FOR NO KEY UPDATE OF u
)
UPDATE thermocline.work_unit u
SET lease_until = pg_catalog.now() + %(lease)s
FROM ours o WHERE u.id = o.id
RETURNING u.id;
