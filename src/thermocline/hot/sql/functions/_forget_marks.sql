-- Removes the marks that a RollUp has seen to: its own, and those of its table that every RollUp of it has seen. A RollUp in the
-- making may need the latter, so not while there is one.
CREATE OR REPLACE FUNCTION thermocline._forget_marks(p_rollup lakets._rollup_registry, p_seen pg_snapshot) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM lakets._rollup_invalidation_log l
    WHERE l.rollup_id = p_rollup.id AND pg_visible_in_snapshot(l.xid, p_seen);
    IF EXISTS (SELECT FROM lakets._rollup_invalidation_log l
               WHERE l.rollup_id IS NULL AND l.chronotable_id = p_rollup.source_chronotable_id)
       AND pg_try_advisory_xact_lock(hashtextextended('thermocline rollup in the making', 0)) THEN
        DELETE FROM lakets._rollup_invalidation_log l
        WHERE l.rollup_id IS NULL AND l.chronotable_id = p_rollup.source_chronotable_id
          AND NOT EXISTS (SELECT FROM lakets._rollup_registry g
                          WHERE g.source_chronotable_id = l.chronotable_id
                            AND (g.seen IS NULL OR NOT pg_visible_in_snapshot(l.xid, g.seen)));
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._forget_marks(lakets._rollup_registry, pg_snapshot) IS 'Removes the marks that a RollUp has seen to.';
