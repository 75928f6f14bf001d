-- A dashboard that is looked at all day: a node computes the newest buckets every ten minutes.
SELECT lakets.create_rollup('hourly',
    'SELECT lakets.time_bucket(''1 hour'', time) AS hour, count(*) AS n FROM readings GROUP BY hour');
-- => 1
SELECT lakets.set_refresh_lag('hourly', '10 minutes');
SELECT name, refresh_lag FROM lakets._rollup_registry;
-- => hourly | 00:10:00
SELECT lakets.set_refresh_lag('hourly', '-1 minute');
-- error: cannot set the refresh_lag of hourly to -00:01:00
