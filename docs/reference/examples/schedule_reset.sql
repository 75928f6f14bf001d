SELECT lakets.schedule_set('refresh', 'readings', p_every => '10 minutes') > 0;
-- => t
SELECT lakets.schedule_reset('refresh', 'readings');
-- => t
SELECT lakets.schedule_reset('refresh', 'readings');
-- => f
