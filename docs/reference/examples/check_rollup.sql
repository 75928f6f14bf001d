SELECT lakets.create_rollup('hourly',
    'SELECT lakets.time_bucket(''1 hour'', time) AS hour, sensor, sum(celsius) AS total, count(celsius) AS n
     FROM readings GROUP BY hour, sensor');
-- => 1

-- Somebody has changed what is stored.
UPDATE _rollup_hourly SET n = 7 WHERE hour = '2026-03-02 08:00:00+00' AND sensor = 'attic';
SELECT bucket, keys, difference, stored -> 'n', computed -> 'n' FROM lakets.check_rollup('hourly');
-- => 2026-03-02 08:00:00+00 | {"sensor": "attic"} | differs | 7 | 3
