SELECT chunk_name, range_start, range_end, status, row_count
FROM lakets.show_chunks('readings') LIMIT 2;
-- => public.readings_20260301_000000 | 2026-03-01 00:00:00+00 | 2026-04-01 00:00:00+00 | active | 7
-- => public.readings_20260401_000000 | 2026-04-01 00:00:00+00 | 2026-05-01 00:00:00+00 | active | 0

-- The days that ended more than three days ago.
SELECT count(*) FROM lakets.show_chunks('requests', p_older_than => '3 days');
-- => 3
