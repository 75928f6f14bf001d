-- Hours, and days and weeks made from them.
SELECT lakets.create_rollup('hourly',
    'SELECT lakets.time_bucket(''1 hour'', time) AS hour, count(*) AS n FROM readings GROUP BY hour');
-- => 1
SELECT lakets.create_rollup('daily',
    'SELECT lakets.time_bucket(''1 day'', hour) AS day, sum(n) AS n FROM _rollup_hourly GROUP BY day', '1 day');
-- => 2
SELECT lakets.create_rollup('weekly',
    'SELECT lakets.time_bucket(''7 days'', day) AS week, sum(n) AS n FROM _rollup_daily GROUP BY week', '7 days');
-- => 3
SELECT * FROM lakets.show_rollup_dag();
-- => hourly | {} | 1 | 01:00:00 | NULL
-- => daily | {hourly} | 2 | 1 day | NULL
-- => weekly | {daily} | 3 | 7 days | NULL
