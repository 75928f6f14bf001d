SELECT lakets.drop_chronotable('requests');
-- notice: public.requests and 10 chunks are dropped
SELECT to_regclass('requests') AS what_is_left;
-- => NULL
SELECT action, object FROM thermocline.audit;
-- => drop_chronotable | public.requests
