SELECT lakets.create_rollup('hourly',
    'SELECT lakets.time_bucket(''1 hour'', time) AS hour, sensor, count(*) AS n FROM readings GROUP BY hour, sensor');
-- => 1
SELECT lakets.create_rollup_view('hourly', NULL);

-- The view shows at once what was written, late or not. The table shows it after the next refresh.
INSERT INTO readings VALUES ('2026-03-02 09:15:00+00', 'cellar', 9.0), (now(), 'cellar', 9.5);
SELECT count(*), sum(n) FROM _rollup_rt_hourly;
-- => 6 | 9
SELECT count(*), sum(n) FROM _rollup_hourly;
-- => 4 | 7

-- The same with the newest part spelled out. It begins at the watermark.
SELECT lakets.create_rollup_view('hourly',
    'SELECT lakets.time_bucket(''1 hour'', time) AS hour, sensor, count(*) AS n FROM readings
     WHERE time >= lakets._rollup_watermark(''hourly'') GROUP BY hour, sensor');
SELECT count(*), sum(n) FROM _rollup_rt_hourly;
-- => 6 | 9
