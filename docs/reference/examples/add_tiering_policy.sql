SELECT lakets.add_tiering_policy('requests', '2 days');
-- notice: public.requests is not synced to the lake, so none of its chunks is tiered yet
-- => 1

-- From here on every chunk has a position that the lake must have reached.
SELECT count(*) FILTER (WHERE last_write_lsn IS NULL) AS without_a_position
FROM lakets._chunk_metadata WHERE chunk_name LIKE 'public.requests%';
-- => 0
