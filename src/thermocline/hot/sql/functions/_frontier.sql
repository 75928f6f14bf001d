-- Up to where a RollUp may be materialised for good: no row from before can appear any more without leaving a mark. Whoever writes
-- a row as fresh does so at most late_after behind the clock. So what holds back is only who began before the frontier was
-- noted and has not ended. Without anybody of that kind, now is as good. Over another RollUp it is what that one has materialised.
-- If the clock was set back, what is written as fresh may lie in what is whole already: that is marked, by each refresh, until the
-- clock has caught up. By how much it was set back nobody knows, so it is marked from some time before now.
CREATE OR REPLACE FUNCTION thermocline._frontier(p_rollup lakets._rollup_registry) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_late   interval;
    v_mine   xid8 := pg_current_xact_id();
    v_oldest xid8 := pg_snapshot_xmin(pg_current_snapshot());
BEGIN
    IF p_rollup.source_chronotable_id IS NULL THEN
        RETURN (SELECT complete_until FROM lakets._rollup_registry WHERE id = p_rollup.source_rollup_id);
    END IF;
    SELECT late_after INTO STRICT v_late FROM lakets._chronotable_registry WHERE id = p_rollup.source_chronotable_id;
    IF p_rollup.complete_until > now() - v_late AND (p_rollup.frontier_at > now() OR EXISTS (
           SELECT FROM lakets._rollup_invalidation_log l
           WHERE l.rollup_id IS NULL AND l.chronotable_id = p_rollup.source_chronotable_id AND l.reason = 'clock_set_back')) THEN
        PERFORM thermocline._mark_range(p_rollup.source_chronotable_id,
                                        now() - v_late - greatest(p_rollup.refresh_lag, interval '1 hour'), p_rollup.complete_until,
                                        'clock_set_back');
    END IF;
    IF v_oldest >= v_mine THEN
        RETURN now() - 2 * v_late;
    ELSIF v_oldest >= p_rollup.frontier_xid AND p_rollup.frontier_at <= now() THEN
        RETURN p_rollup.frontier_at - 2 * v_late;
    END IF;
    RETURN '-infinity';
END
$$;

COMMENT ON FUNCTION thermocline._frontier(lakets._rollup_registry) IS 'Up to where a RollUp may be materialised for good.';
