SELECT lakets.create_rollup('hourly',
    'SELECT lakets.time_bucket(''1 hour'', time) AS hour, sensor, count(*) AS n FROM readings GROUP BY hour, sensor');
-- => 1
SELECT name, rollup_table, realtime_view, bucket_interval, refresh_lag, watermark
FROM lakets.show_rollups();
-- => hourly | public._rollup_hourly | public._rollup_rt_hourly | 01:00:00 | 01:00:00 | 2026-03-02 10:00:00+00
SELECT name, source_table, bucket_column, depends_on, last_refreshed_at
FROM lakets.show_rollups();
-- => hourly | public.readings | hour | {} | NULL
