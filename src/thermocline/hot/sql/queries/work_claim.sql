-- The units that have been ready for longest become ours: pending ones, and those whose worker let its lease run out. Nobody waits
-- for anybody: what another one is just claiming, or holds by a fence, is skipped. One that was lost, or has a lane, comes alone: it
-- may be what killed its worker, and two of a lane cannot be claimed. A claim that was shared and lost is no attempt of its units.
WITH free AS (
    SELECT k.kind FROM unnest(%(kinds)s::text[]) k (kind)
    WHERE NOT EXISTS (SELECT FROM thermocline.work_stop s WHERE s.what IN (k.kind, 'everything'))
), ready AS (
    SELECT u.id, coalesce(u.lease_until, u.not_before) AS since, u.status = 'claimed' OR u.lane IS NOT NULL AS alone
    FROM thermocline.work_unit u
    LEFT JOIN thermocline.schedule s ON s.id = u.schedule_id
    WHERE u.status IN ('pending', 'claimed') AND coalesce(u.lease_until, u.not_before) <= pg_catalog.now()
      AND u.attempt - (u.status = 'claimed' AND u.shared)::int < u.max_attempts
      AND u.kind = ANY (ARRAY(SELECT f.kind FROM free f))
      AND NOT (u.destructive AND EXISTS (SELECT FROM thermocline.work_stop d WHERE d.what = 'destructive'))
      AND thermocline._work_window_open(s.window_start, s.window_end, s.window_means, pg_catalog.now())
      AND NOT EXISTS (SELECT FROM thermocline.work_unit o WHERE o.lane = u.lane AND o.status = 'claimed' AND o.id <> u.id)
    ORDER BY coalesce(u.lease_until, u.not_before), u.id
    LIMIT %(most)s
    FOR UPDATE OF u SKIP LOCKED
), mine AS (
    SELECT r.id, pg_catalog.count(*) OVER () > 1 AS shared
    FROM (SELECT r.id, r.alone, pg_catalog.row_number() OVER w AS place, pg_catalog.first_value(r.alone) OVER w AS first_alone
          FROM ready r WINDOW w AS (ORDER BY r.since, r.id)) r
    WHERE r.place = 1 OR NOT (r.alone OR r.first_alone)
)
UPDATE thermocline.work_unit u
SET status = 'claimed', owner = %(owner)s, lease_epoch = u.lease_epoch + 1,
    attempt = u.attempt + 1 - (u.status = 'claimed' AND u.shared)::int, shared = mine.shared,
    lease_until = pg_catalog.now() + %(lease)s, claimed_at = pg_catalog.now(),
    last_error = CASE WHEN u.status = 'claimed' THEN pg_catalog.format('its worker %%s let the lease run out', u.owner) ELSE u.last_error END
FROM mine WHERE u.id = mine.id
RETURNING u.id, u.kind, u.chronotable_id, u.scope, u.payload, u.lease_epoch, u.attempt, u.max_attempts, u.destructive;
