-- Sums and counts by hour and sensor. The first column of time is the bucket.
SELECT lakets.create_rollup('hourly',
    'SELECT lakets.time_bucket(''1 hour'', time) AS hour, sensor, sum(celsius) AS total, count(celsius) AS n
     FROM readings GROUP BY hour, sensor');
-- => 1
SELECT * FROM _rollup_hourly ORDER BY hour, sensor;
-- => 2026-03-02 08:00:00+00 | attic | 55.5 | 3
-- => 2026-03-02 08:00:00+00 | cellar | 18.5 | 2
-- => 2026-03-02 10:00:00+00 | attic | 21.5 | 1
-- => 2026-03-02 10:00:00+00 | cellar | 10 | 1

-- A RollUp can be made from another one. Its averages are of readings, not of hours.
SELECT lakets.create_rollup('daily',
    'SELECT lakets.time_bucket(''1 day'', hour) AS day, sensor, sum(total) / sum(n) AS mean, sum(n) AS n
     FROM _rollup_hourly GROUP BY day, sensor', '1 day');
-- => 2
SELECT * FROM _rollup_daily ORDER BY sensor;
-- => 2026-03-02 00:00:00+00 | attic | 19.25 | 4
-- => 2026-03-02 00:00:00+00 | cellar | 9.5 | 3

-- What could not be kept exact is refused, with every reason.
SELECT lakets.create_rollup('recent',
    'SELECT lakets.time_bucket(''1 hour'', time) AS hour, avg(celsius) FROM readings
     WHERE time > now() - interval ''7 days'' GROUP BY hour LIMIT 5');
-- error: cannot make the RollUp recent: it has LIMIT or OFFSET; it calls now(), whose result is not the same at every moment and in every session; it calls timestamptz_mi_interval(timestamp with time zone,interval), whose result is not the same at every moment and in every session
