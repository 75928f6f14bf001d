-- Rows for months that have left PostgreSQL are let in, and go on to the lake.
SELECT lakets.enable_sync('readings');
-- warning: no feed is running, so nothing of public.readings reaches the lake yet
SELECT lakets.set_late_rows('readings', 'lake');
-- notice: some ranges of public.readings refuse late rows for now: it does not stream yet
SELECT table_name, late FROM lakets._chronotable_registry WHERE late = 'lake';
-- => readings | lake

-- As it was.
SELECT lakets.set_late_rows('readings', 'reject');
SELECT lakets.set_late_rows('readings', 'sea');
-- error: late rows of public.readings cannot go to 'sea'
