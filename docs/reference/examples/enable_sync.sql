-- The table goes to the lake, with its rows and every change from now on, as soon as the feed runs.
SELECT lakets.enable_sync('readings');
-- warning: no feed is running, so nothing of public.readings reaches the lake yet
SELECT table_oid::regclass, status, committed_lsn FROM wal2delta.tables;
-- => readings | SNAPSHOTTING | NULL
