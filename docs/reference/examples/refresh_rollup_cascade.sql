-- Days made from hours.
SELECT lakets.create_rollup('hourly',
    'SELECT lakets.time_bucket(''1 hour'', time) AS hour, sensor, sum(celsius) AS total, count(celsius) AS n
     FROM readings GROUP BY hour, sensor');
-- => 1
SELECT lakets.create_rollup('daily',
    'SELECT lakets.time_bucket(''1 day'', hour) AS day, sensor, sum(total) / sum(n) AS mean
     FROM _rollup_hourly GROUP BY day, sensor', '1 day');
-- => 2
INSERT INTO readings VALUES ('2026-03-02 09:15:00+00', 'cellar', 13.5);

-- Hours first, so that the days take in what was late.
SELECT rollup_name, refreshed, refresh_ms > 0 AS took_time FROM lakets.refresh_rollup_cascade('daily');
-- => hourly | t | t
-- => daily | t | t
SELECT * FROM _rollup_daily ORDER BY sensor;
-- => 2026-03-02 00:00:00+00 | attic | 19.25
-- => 2026-03-02 00:00:00+00 | cellar | 10.5

-- Each keeps to its own refresh_lag.
SELECT rollup_name, refreshed FROM lakets.refresh_rollup_cascade();
-- => hourly | f
-- => daily | f
