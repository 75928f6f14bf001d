SELECT lakets.create_rollup('daily',
    'SELECT lakets.time_bucket(''1 day'', time) AS day, max(served) AS served FROM requests GROUP BY day', '1 day');
-- => 1
SELECT lakets.drop_chunks('requests', '4 days');
-- => 2

-- Days that have left PostgreSQL are passed over: what they were stays. Of five, both ends included, three are left.
SELECT lakets.invalidate_rollup_range('daily', now() - interval '6 days', now() - interval '2 days');
-- => 3
SELECT lakets.refresh_rollup('daily');
-- => t
SELECT served FROM _rollup_daily ORDER BY day;
-- => 100
-- => 250
-- => 400
-- => 60
-- => 90
-- => 190
