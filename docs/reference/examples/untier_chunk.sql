-- Only a tiered chunk has a flag that could be taken from it.
SELECT lakets.untier_chunk('public.readings_20260301_000000');
-- error: public.readings_20260301_000000 is not a tiered chunk
