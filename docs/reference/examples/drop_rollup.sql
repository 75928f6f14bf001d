SELECT lakets.create_rollup('hourly',
    'SELECT lakets.time_bucket(''1 hour'', time) AS hour, count(*) AS n FROM readings GROUP BY hour');
-- => 1
SELECT lakets.create_rollup('daily',
    'SELECT lakets.time_bucket(''1 day'', hour) AS day, sum(n) AS n FROM _rollup_hourly GROUP BY day', '1 day');
-- => 2
SELECT lakets.create_rollup_view('hourly'), lakets.create_rollup_view('daily');

-- One that others are made from stays.
SELECT lakets.drop_rollup('hourly');
-- error: cannot drop the RollUp hourly: daily depend on it
SELECT lakets.drop_rollup('daily');
SELECT lakets.drop_rollup('hourly');
SELECT count(*) FROM lakets.show_rollups();
-- => 0
