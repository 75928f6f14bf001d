-- A chunk that the lake is not known to have stays as it is, and a notice says why.
SELECT lakets.tier_chunk('public.readings_20260301_000000');
-- notice: public.readings_20260301_000000 stays: its table is not synced, so the lake does not have its rows
-- => f
SELECT lakets.enable_sync('readings');
-- warning: no feed is running, so nothing of public.readings reaches the lake yet
SELECT lakets.tier_chunk('public.readings_20260301_000000');
-- notice: public.readings_20260301_000000 stays: the feed of its table is SNAPSHOTTING
-- => f

-- Nor is there anything to flag where there is no chunk.
SELECT lakets.tier_chunk('public.readings_19990101_000000');
-- notice: there is no resident chunk public.readings_19990101_000000
-- => f
