-- What of a range can come back from the lake, and what speaks against the rest.
SELECT p.range_start, p.range_end, p.row_count AS rows, p.code, p.message, p.next_step
FROM thermocline._rehydration_plan(lakets._chronotable_id(%(table)s, %(schema)s), %(start)s, %(end)s) p
ORDER BY p.range_start;
