SELECT lakets.create_rollup('hourly',
    'SELECT lakets.time_bucket(''1 hour'', time) AS hour, sensor, sum(celsius) AS total, count(celsius) AS n
     FROM readings GROUP BY hour, sensor');
-- => 1

DELETE FROM _rollup_hourly WHERE sensor = 'attic' AND hour < '2026-03-02 09:00:00+00';
SELECT lakets.repair_rollup('hourly');
-- => 1
SELECT count(*) FROM lakets.check_rollup('hourly');
-- => 0
