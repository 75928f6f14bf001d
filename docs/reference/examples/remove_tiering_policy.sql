SELECT lakets.add_tiering_policy('requests', '2 days');
-- notice: public.requests is not synced to the lake, so none of its chunks is tiered yet
-- => 1
SELECT lakets.remove_tiering_policy('requests');
SELECT * FROM lakets.show_tiering_policy('requests');
-- => no rows
