SELECT lakets.add_tiering_policy('requests', '4 days');
-- notice: public.requests is not synced to the lake, so none of its chunks is tiered yet
-- => 1

-- Two days wait to be proven. They wait for good as long as nothing brings the table to the lake.
SELECT table_name, after, active_chunks, tiered_chunks, pending_chunks, cdf_status, caught_up
FROM lakets.show_tiering_status('requests');
-- => requests | 4 days | 10 | 0 | 2 | NONE | f

-- What becomes of the oldest chunk, and what to do about it.
SELECT v ->> 'state' AS state, v ->> 'verdict' AS verdict, v ->> 'reason' AS reason, v ->> 'next_step' AS next_step
FROM lakets.show_tiering_status('requests', p_verdicts => true) s, jsonb_array_elements(s.verdicts) v LIMIT 1;
-- => active | stays | not_synced | SELECT lakets.enable_sync('requests', 'public')
