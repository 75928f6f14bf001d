SELECT lakets.enable_sync('readings');
-- notice: no feed is running; `thermocline feed` brings public.readings to the lake
SELECT lakets.disable_sync('readings');
-- notice: that was the last synced table; the next `thermocline feed` removes the replication slot
SELECT sync_enabled FROM lakets._chronotable_registry WHERE table_name = 'readings';
-- => f
