SELECT lakets.enable_sync('readings');
-- warning: no feed is running, so nothing of public.readings reaches the lake yet
SELECT table_name, status, lake_table, lag_bytes, lag_seconds, rows_per_second, covered FROM lakets.feed_status();
-- => public.readings | JOINING | public.lb_readings_history | NULL | NULL | 0 | 0
