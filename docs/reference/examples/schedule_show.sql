SELECT kind, every, cron, enabled FROM lakets.schedule_show();
-- => partitions | 00:05:00 | NULL | t
-- => prune | 01:00:00 | NULL | t
-- => recompute | 00:15:00 | NULL | t
-- => refresh | 00:01:00 | NULL | t
-- => rehydrate | 00:01:00 | NULL | t
-- => retention | 01:00:00 | NULL | t
-- => settle | 00:05:00 | NULL | t
-- => tier | 01:00:00 | NULL | t
-- => verify | NULL | 0 3 * * 0 | t
