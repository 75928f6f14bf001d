SELECT lakets.enable_sync('readings');
-- warning: no feed is running, so nothing of public.readings reaches the lake yet
SELECT lakets.disable_sync('readings');
-- notice: that was the last synced table; `thermocline feed` removes the replication slot
SELECT sync_enabled FROM lakets._chronotable_registry WHERE table_name = 'readings';
-- => f
