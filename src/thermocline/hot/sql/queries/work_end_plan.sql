-- What came of a plan, written by whoever still owns its unit: until the end of the statement nobody takes that over.
WITH ours AS (
    SELECT u.id
    FROM thermocline.work_unit u
    WHERE u.id = %(id)s AND u.lease_epoch = %(epoch)s AND u.owner = %(owner)s AND u.status = 'claimed'
    FOR KEY SHARE OF u
)
UPDATE thermocline.plan p SET ended_at = pg_catalog.clock_timestamp(), outcome = %(outcome)s
FROM ours o WHERE p.id = %(plan)s AND p.work_unit_id = o.id;
