SELECT lakets.add_tiering_policy('requests', '4 days');
-- notice: public.requests is not synced to the lake, so none of its chunks is tiered yet
-- => 1

-- Two days wait to be proven. They wait for good as long as nothing brings the table to the lake.
SELECT table_name, after, active_chunks, tiered_chunks, pending_chunks, cdf_status, caught_up
FROM lakets.show_tiering_status('requests');
-- => requests | 4 days | 10 | 0 | 2 | NONE | f
