-- Removes the marks of tables that have no RollUp, once no transaction that is still open could have left them. A RollUp in the
-- making needs them, so it holds the lock in common until it is there.
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
    WHERE l.rollup_id IS NULL AND l.xid < pg_snapshot_xmin(pg_current_snapshot())
      AND NOT EXISTS (SELECT FROM lakets._rollup_registry g WHERE g.source_chronotable_id = l.chronotable_id);
    GET DIAGNOSTICS v_pruned = ROW_COUNT;
    RETURN v_pruned;
END
$$;

COMMENT ON FUNCTION lakets._prune_marks() IS 'Removes marks that no RollUp needs; returns how many.';
