-- Buckets of a RollUp have lost rows before they were whole: never will they be, from what is left. Its real-time view no longer
-- shows them, nor do those of the RollUps that are made from it.
CREATE OR REPLACE FUNCTION thermocline._note_incomplete(p_rollup_id int, p_lost tstzmultirange) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE lakets._rollup_registry g
    SET incomplete = g.incomplete + p_lost, watermark = greatest(g.watermark, upper(p_lost))
    WHERE g.id = p_rollup_id AND NOT p_lost <@ g.incomplete;
    IF FOUND THEN
        PERFORM thermocline._note_incomplete(g.id, thermocline._buckets_over(g, p_lost))
        FROM lakets._rollup_registry g WHERE g.source_rollup_id = p_rollup_id;
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._note_incomplete(int, tstzmultirange) IS
    'Writes down that buckets of a RollUp have lost rows before they were whole.';
