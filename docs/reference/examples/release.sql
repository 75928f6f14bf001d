-- Nothing of this table has come back from the lake, so there is nothing to let go of.
SELECT lakets.release('readings', now() - interval '6 days', now() - interval '4 days');
-- notice: nothing of public.readings from ... to ... is kept
-- => 0
