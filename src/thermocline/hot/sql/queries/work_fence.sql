-- Whether a claim is still ours, and whether it has to stop. Until the end of the transaction nobody takes it over: a claim locks FOR
-- UPDATE, which this lock is in the way of. Renewals are not, because they change no key.
SELECT u.destructive AND EXISTS (SELECT FROM thermocline.work_stop s WHERE s.what IN ('destructive', 'everything', u.kind))
FROM thermocline.work_unit u
WHERE u.id = %(id)s AND u.lease_epoch = %(epoch)s AND u.owner = %(owner)s AND u.status = 'claimed'
FOR KEY SHARE OF u;
