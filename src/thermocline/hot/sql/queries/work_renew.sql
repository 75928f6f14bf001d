-- Those of our claims that are still ours get a new lease.
UPDATE thermocline.work_unit u
SET lease_until = pg_catalog.now() + %(lease)s
FROM unnest(%(ids)s::bigint[], %(epochs)s::bigint[]) held (id, epoch)
WHERE u.id = held.id AND u.lease_epoch = held.epoch AND u.owner = %(owner)s AND u.status = 'claimed'
RETURNING u.id;
