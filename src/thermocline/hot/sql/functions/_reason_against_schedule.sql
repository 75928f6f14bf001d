-- Why chunks of this length would not last from one run of the schedule that makes them to the next; NULL if they do.
CREATE OR REPLACE FUNCTION thermocline._reason_against_schedule(p_chunk_interval interval, p_chronotable_id int) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('its chunks of %s are made for %s ahead, and up to %s may pass between two runs of the schedule of partitions',
                  p_chunk_interval, justify_interval(ahead), gap)
    FROM thermocline._chunk_gap(p_chronotable_id) gap,
         LATERAL (SELECT lakets._chunks_ahead(p_chunk_interval, p_chronotable_id) * p_chunk_interval AS ahead) a
    WHERE ahead < gap
$$;

COMMENT ON FUNCTION thermocline._reason_against_schedule(interval, int) IS
    'Why chunks of a length would not last until the next ones are made; NULL if they do.';
