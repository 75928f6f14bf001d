SELECT lakets.add_tiered_retention_policy('requests', '7 days', '90 days');
-- notice: public.requests is not synced to the lake, so none of its chunks is tiered yet
-- => 1
SELECT * FROM lakets.show_retention_policy('requests');
-- => 1 | tiered_retention | 90 days | 7 days | t | NULL
