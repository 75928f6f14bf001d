-- The RollUps of a ChronoTable that was dropped by other means, with those that are made from them: noted, and forgotten. Their tables
-- stay as plain ones, because nobody has asked for their end; their real-time views go, which have nothing to read any more.
CREATE OR REPLACE FUNCTION thermocline._forget_rollups(p_chronotable_id int) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_one record;
BEGIN
    FOR v_one IN
        WITH RECURSIVE made AS (
            SELECT g.id, 1 AS depth FROM lakets._rollup_registry g WHERE g.source_chronotable_id = p_chronotable_id
            UNION ALL
            SELECT g.id, m.depth + 1 FROM made m JOIN lakets._rollup_registry g ON g.source_rollup_id = m.id
        )
        SELECT g.*, c.relname IS NOT NULL AS stays FROM made m
        JOIN lakets._rollup_registry g ON g.id = m.id LEFT JOIN pg_class c ON c.oid = g.rollup_oid
        ORDER BY m.depth DESC, g.id  -- those that are made from others first
    LOOP
        PERFORM thermocline._drop_shadow(-v_one.id);
        IF to_regclass(v_one.realtime_view) IS NOT NULL THEN
            EXECUTE format('DROP VIEW %s CASCADE', v_one.realtime_view);
        END IF;
        INSERT INTO thermocline.audit (action, object, chronotable_id, forced, reason, evidence)
        VALUES ('rollup_gone', v_one.name, p_chronotable_id, true, 'noticed: the table that it is made from was dropped',
                jsonb_build_object('table', v_one.rollup_table, 'table_stays', v_one.stays, 'query', v_one.query_text));
        DELETE FROM lakets._rollup_invalidation_log WHERE rollup_id = v_one.id;
        DELETE FROM lakets._rollup_recompute WHERE rollup_id = v_one.id;
        UPDATE lakets._rollup_registry SET depends_on = array_remove(depends_on, v_one.id) WHERE v_one.id = ANY (depends_on);
        DELETE FROM lakets._rollup_registry WHERE id = v_one.id;
    END LOOP;
END
$$;

COMMENT ON FUNCTION thermocline._forget_rollups(int) IS 'Takes note that the source of RollUps is gone; their tables stay.';
