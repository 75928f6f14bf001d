-- Only what is synced can be copied again.
SELECT lakets.resync('readings');
-- error: cannot resync public.readings: it is not synced

SELECT lakets.enable_sync('readings');
-- warning: no feed is running, so nothing of public.readings reaches the lake yet
SELECT lakets.resync('readings') > 0;
-- => t
