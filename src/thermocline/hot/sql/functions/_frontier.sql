-- Up to where a RollUp may be materialised for good: no row from before can appear any more without leaving a mark. Whoever writes
-- a row as fresh does so at most late_after behind the clock. So what holds back is only who began before the frontier was
-- noted and has not ended. Without anybody of that kind, now is as good. Over another RollUp it is what that one has materialised.
CREATE OR REPLACE FUNCTION thermocline._frontier(p_rollup_id int) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_rollup lakets._rollup_registry;
    v_late   interval;
    v_mine   xid8 := pg_current_xact_id();
    v_oldest xid8 := pg_snapshot_xmin(pg_current_snapshot());
BEGIN
    SELECT * INTO STRICT v_rollup FROM lakets._rollup_registry WHERE id = p_rollup_id;
    IF v_rollup.source_chronotable_id IS NULL THEN
        RETURN (SELECT complete_until FROM lakets._rollup_registry WHERE id = v_rollup.source_rollup_id);
    END IF;
    SELECT late_after INTO STRICT v_late FROM lakets._chronotable_registry WHERE id = v_rollup.source_chronotable_id;
    IF v_oldest >= v_mine THEN
        RETURN now() - 2 * v_late;
    ELSIF v_oldest >= v_rollup.frontier_xid THEN
        RETURN v_rollup.frontier_at - 2 * v_late;
    END IF;
    RETURN '-infinity';
END
$$;

COMMENT ON FUNCTION thermocline._frontier(int) IS 'Up to where a RollUp may be materialised for good.';
