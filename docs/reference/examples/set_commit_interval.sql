-- Nobody looks at this table by the second: one commit in five minutes is enough.
SELECT lakets.enable_sync('readings');
-- warning: no feed is running, so nothing of public.readings reaches the lake yet
SELECT lakets.set_commit_interval('readings', '5 minutes');
SELECT table_name, commit_interval FROM lakets.feed_status();
-- => public.readings | 00:05:00
