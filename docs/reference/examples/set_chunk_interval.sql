-- From days to weeks. Chunks that are there keep their length.
SELECT lakets.set_chunk_interval('requests', '7 days');
SELECT chunk_interval FROM lakets._chronotable_registry WHERE table_name = 'requests';
-- => 7 days
SELECT DISTINCT range_end - range_start AS length FROM lakets.show_chunks('requests');
-- => 1 day
