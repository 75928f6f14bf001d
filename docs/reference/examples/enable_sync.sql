-- The table goes to the lake, with its rows and every change from now on, as soon as the feed runs.
SELECT lakets.enable_sync('readings');
-- warning: no feed is running, so nothing of public.readings reaches the lake yet
SELECT table_oid::regclass, status, committed_lsn FROM wal2delta.tables;
-- => readings | SNAPSHOTTING | NULL
-- In the other mode, an unpartitioned mirror streams in its place; its history has another name.
SELECT lakets.enable_sync('readings', p_mode => 'shadow');
-- notice: public.readings is switched from direct to shadow mode; its history is public.lb__shadow_readings_history from now on
-- warning: no feed is running, so nothing of public.readings reaches the lake yet
SELECT table_oid::regclass, status, committed_lsn FROM wal2delta.tables;
-- => lakets_cdf._shadow_readings | SNAPSHOTTING | NULL
