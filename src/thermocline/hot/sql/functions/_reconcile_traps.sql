-- Ranges that have left and have no trap get one: somebody has dropped it, or it could not be attached then. What late rows it had is in the
-- stream, so a trap that takes the place of one that was dropped counts from where it is opened. The caller holds the table's row.
CREATE OR REPLACE FUNCTION thermocline._reconcile_traps(p_chronotable_id int) RETURNS TABLE (object text, finding text, done text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    v_missing timestamptz[];
BEGIN
    UPDATE thermocline.dropped_range d SET trap_oid = NULL, settled_position = NULL, traps_lost = d.traps_lost + 1
    WHERE d.chronotable_id = p_chronotable_id AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = d.trap_oid) AND d.trap_oid IS NOT NULL;
    SELECT array_agg(d.range_start) INTO v_missing
    FROM thermocline.dropped_range d WHERE d.chronotable_id = p_chronotable_id AND d.trap_oid IS NULL;
    IF v_missing IS NULL THEN
        RETURN;
    END IF;
    PERFORM thermocline._set_traps(p_chronotable_id, false);
    RETURN QUERY
    SELECT format('%I.%I', r.schema_name, r.table_name),
           format('no trap for late rows from %s to %s, whose rows have left', d.range_start, d.range_end),
           CASE WHEN d.trap_oid IS NULL THEN 'left alone: detach what is in its place; it is tried again' ELSE 'it has one again' END
    FROM thermocline.dropped_range d JOIN lakets._chronotable_registry r ON r.id = d.chronotable_id
    WHERE d.chronotable_id = p_chronotable_id AND d.range_start = ANY (v_missing) ORDER BY d.range_start;
END
$$;

COMMENT ON FUNCTION thermocline._reconcile_traps(int) IS 'Sets the traps that are missing; returns what it found and did.';
