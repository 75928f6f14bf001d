-- Two days of it have been dropped outright, so the lake does not have them.
SELECT lakets.add_retention_policy('requests', '4 days');
-- => 1
SELECT lakets.execute_retention('requests');
-- => 2
SELECT * FROM lakets.rehydrate('requests', now() - interval '6 days', now() - interval '5 days', p_until => '7 days');
-- error: nothing of public.requests from ... to ... can be brought back: it was dropped outright, and the lake does not have it
