-- The first free seat of a class, taken until it is given back or the session ends; no row when all are taken.
SELECT s FROM pg_catalog.generate_series(1, (SELECT b.most_at_once FROM thermocline.work_budget b WHERE b.class = %(class)s)) s
WHERE pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext('thermocline seat ' || %(class)s), s)
LIMIT 1;
