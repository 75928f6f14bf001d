-- Removes the marks of tables that have no RollUp, and of RollUps that were dropped while their writers were open, once no transaction
-- that is still open could have left them. A RollUp in the making needs the former, so it holds the lock in common until it is there.
CREATE OR REPLACE FUNCTION lakets._prune_marks() RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_pruned bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('thermocline rollup in the making', 0)) THEN
        RETURN 0;
    END IF;
    DELETE FROM lakets._rollup_invalidation_log l
    WHERE l.xid < pg_snapshot_xmin(pg_current_snapshot())
      AND NOT EXISTS (SELECT FROM lakets._rollup_registry g
                      WHERE CASE WHEN l.rollup_id IS NULL THEN g.source_chronotable_id = l.chronotable_id ELSE g.id = l.rollup_id END);
    GET DIAGNOSTICS v_pruned = ROW_COUNT;
    RETURN v_pruned;
END
$$;

COMMENT ON FUNCTION lakets._prune_marks() IS 'Removes marks that no RollUp needs; returns how many.';
