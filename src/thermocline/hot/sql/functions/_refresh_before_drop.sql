-- The RollUps of a table take in what is about to leave, whatever their refresh_lag is.
CREATE OR REPLACE FUNCTION lakets._refresh_before_drop(p_chronotable_id int, p_until timestamptz) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM lakets._refresh_rollup(g.id, true)
    FROM lakets._rollup_registry g
    WHERE g.source_chronotable_id = p_chronotable_id
      AND EXISTS (SELECT FROM lakets._chunk_metadata m, thermocline._rollups_behind(p_chronotable_id, m.range_start, m.range_end) b
                  WHERE m.chronotable_id = p_chronotable_id AND m.status <> 'dropped' AND m.range_end <= p_until AND b.name = g.name);
END
$$;

COMMENT ON FUNCTION lakets._refresh_before_drop(int, timestamptz) IS
    'Refreshes the RollUps that still need what a table has from before p_until.';
