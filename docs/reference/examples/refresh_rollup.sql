SELECT lakets.create_rollup('hourly',
    'SELECT lakets.time_bucket(''1 hour'', time) AS hour, sensor, sum(celsius) AS total, count(celsius) AS n
     FROM readings GROUP BY hour, sensor');
-- => 1

-- A row that comes late, and a correction.
INSERT INTO readings VALUES ('2026-03-02 09:15:00+00', 'cellar', 9.0);
UPDATE readings SET celsius = 18.9 WHERE time = '2026-03-02 08:40:00+00';
SELECT lakets.refresh_rollup('hourly');
-- => t
SELECT * FROM _rollup_hourly ORDER BY hour, sensor;
-- => 2026-03-02 08:00:00+00 | attic | 55.4 | 3
-- => 2026-03-02 08:00:00+00 | cellar | 18.5 | 2
-- => 2026-03-02 09:00:00+00 | cellar | 9 | 1
-- => 2026-03-02 10:00:00+00 | attic | 21.5 | 1
-- => 2026-03-02 10:00:00+00 | cellar | 10 | 1

-- Once in an hour is enough, unless its lag says otherwise.
SELECT lakets.refresh_rollup('hourly');
-- => f
UPDATE lakets._rollup_registry SET refresh_lag = '0' WHERE name = 'hourly';
SELECT lakets.refresh_rollup('hourly');
-- => t
