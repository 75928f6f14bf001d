-- The table goes to the lake, with its rows and every change from now on, as soon as the feed runs.
SELECT lakets.enable_sync('readings');
-- notice: no feed is running; `thermocline feed` brings public.readings to the lake
SELECT table_oid::regclass, status, committed_lsn FROM wal2delta.tables;
-- => readings | SNAPSHOTTING | NULL
