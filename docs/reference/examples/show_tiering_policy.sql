SELECT lakets.add_tiering_policy('requests', '7 days');
-- notice: public.requests is not synced to the lake, so none of its chunks is tiered yet
-- => 1
SELECT * FROM lakets.show_tiering_policy('requests');
-- => 1 | 7 days | t | NULL
