-- Six days that were, today, and three to come.
SELECT chronotable, total_chunks, active_chunks, tiered_chunks, dropped_chunks
FROM lakets.chunk_health() WHERE chronotable = 'public.requests';
-- => public.requests | 10 | 10 | 0 | 0
