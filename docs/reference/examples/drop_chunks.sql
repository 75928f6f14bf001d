-- The table is not synced, so the days that ended at least three days ago go outright.
SELECT lakets.drop_chunks('requests', '3 days');
-- => 3
SELECT count(*) FROM requests;
-- => 3

-- Of a synced table only what is proven in the lake goes. Nothing of this one is yet.
SELECT lakets.enable_sync('requests');
-- warning: no feed is running, so nothing of public.requests reaches the lake yet
SELECT lakets.drop_chunks('requests', '2 days');
-- notice: public.requests_... stays: the feed of its table is SNAPSHOTTING
-- => 0
