CALL lakets.drop_chronotable_in_batches('requests', p_batch => 6);
-- notice: 6 chunks of public.requests are dropped, 4 are left
-- notice: 4 chunks of public.requests are dropped, 0 are left
-- notice: public.requests and 0 chunks are dropped
SELECT action, object, evidence ->> 'chunks' AS chunks FROM thermocline.audit ORDER BY id;
-- => drop_chronotable | public.requests | 6
-- => drop_chronotable | public.requests | 4
-- => drop_chronotable | public.requests | 0
