-- Marks all that a ChronoTable has from p_from up to p_to, without it, as written: for every RollUp, every key.
CREATE OR REPLACE FUNCTION thermocline._mark_range(
    p_chronotable_id int,
    p_from           timestamptz,
    p_to             timestamptz,
    p_reason         text
) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO lakets._rollup_invalidation_log (chronotable_id, first_time, last_time, reason)
    VALUES (p_chronotable_id, p_from, p_to - interval '1 microsecond', p_reason)
$$;

COMMENT ON FUNCTION thermocline._mark_range(int, timestamptz, timestamptz, text) IS
    'Marks a range of a ChronoTable as written, for all of its RollUps.';
