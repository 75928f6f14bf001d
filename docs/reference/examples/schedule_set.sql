-- Chunks past retention leave at night only, and those of one table once a day.
SELECT lakets.schedule_set('retention', p_window => 'runs 22:00-06:00') > 0;
-- => t
SELECT lakets.schedule_set('retention', 'requests', p_cron => '30 2 * * *') > 0;
-- => t
SELECT table_name, every, cron, pace_window, enabled FROM lakets.schedule_show() WHERE kind = 'retention';
-- => NULL | 01:00:00 | NULL | runs 22:00-06:00 | t
-- => requests | NULL | 30 2 * * * | runs 22:00-06:00 | t
SELECT lakets.schedule_set('retention', p_every => '0 seconds');
-- error: work cannot be due every 00:00:00
