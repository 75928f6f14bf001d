-- The rows of a table up to p_until are about to leave, or have left: from now on and for ever its RollUps show what they have
-- computed of every bucket that has a part in them. Not while one of them is being refreshed: that would compute its newest
-- buckets from what is left. It is not waited for, because a refresh may wait for us.
CREATE OR REPLACE FUNCTION thermocline._serve_from_rollups(p_chronotable_id int, p_until timestamptz) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_rollup record;
BEGIN
    FOR v_rollup IN SELECT g.id, g.name FROM lakets._rollup_registry g WHERE g.source_chronotable_id = p_chronotable_id ORDER BY g.id LOOP
        IF NOT pg_try_advisory_xact_lock(hashtextextended('thermocline rollup ' || v_rollup.id, 0)) THEN
            RAISE EXCEPTION 'the RollUp % is being refreshed', v_rollup.name
                USING ERRCODE = 'lock_not_available', HINT = 'Try again once it is done.';
        END IF;
    END LOOP;
    UPDATE lakets._rollup_registry g
    SET watermark = greatest(g.watermark, upper(thermocline._buckets_over(
        g, tstzmultirange(tstzrange(p_until - interval '1 microsecond', p_until)))))
    WHERE g.source_chronotable_id = p_chronotable_id;
END
$$;

COMMENT ON FUNCTION thermocline._serve_from_rollups(int, timestamptz) IS
    'Lets RollUps show what they have computed of a range, not its rows.';
