-- The same as a draw answers, of a class from whose bucket nothing is drawn and nothing is owed; NULL: there is no limit.
SELECT 0, 0, b.bytes_per_second, b.operations_per_second, extract(epoch FROM b.slow_after)::float8
FROM thermocline.work_budget b WHERE b.class = %(class)s;
