-- How long a ChronoTable may wait for its next chunks: by its own schedule of partitions, or by that for all, which also is a new table's.
CREATE OR REPLACE FUNCTION thermocline._chunk_gap(p_chronotable_id int) RETURNS interval
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce((SELECT thermocline._longest_gap(s) FROM thermocline.schedule s
                     WHERE s.kind = 'partitions' AND (s.chronotable_id = p_chronotable_id OR s.chronotable_id IS NULL)
                     ORDER BY s.chronotable_id NULLS LAST LIMIT 1), interval '0')
$$;

COMMENT ON FUNCTION thermocline._chunk_gap(int) IS 'The longest time between two runs that make the chunks of a ChronoTable, or more.';
