-- Put on record that ranges are wanted back.
SELECT r.range_start FROM lakets.rehydrate(%(table)s, %(start)s, %(end)s, %(until)s, %(schema)s) r;
