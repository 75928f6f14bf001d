-- How many chunks there should be beyond the one of now: enough for the longest time between two runs of the schedule that makes them, and
-- for a day without any; three at least. Both are cut for short chunks, as each is a table of its own and the first ones are made in
-- one transaction: the day at 48 chunks, so chunks of a minute outlast a run that is 48 minutes late; the schedule at 500, and one
-- that is longer than 500 chunks is refused where it is set.
CREATE OR REPLACE FUNCTION lakets._chunks_ahead(p_chunk_interval interval, p_chronotable_id int DEFAULT NULL) RETURNS int
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT greatest(3, least(500, ceil(extract(epoch FROM thermocline._chunk_gap(p_chronotable_id)) / step))
                       + least(48, ceil(86400 / step)::int))::int  -- of an interval too short for any grid: an error
    FROM extract(epoch FROM p_chunk_interval) step
$$;

COMMENT ON FUNCTION lakets._chunks_ahead(interval, int) IS
    'How many future chunks of this length a ChronoTable keeps ready; without an id, a new one.';
