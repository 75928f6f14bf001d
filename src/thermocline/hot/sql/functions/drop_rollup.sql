-- Drops a RollUp with its table and its view. One that others are made from stays.
CREATE OR REPLACE FUNCTION lakets.drop_rollup(p_name text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id     int := thermocline._rollup_id(p_name);
    v_rollup lakets._rollup_registry;
    v_others text;
BEGIN
    SELECT string_agg(quote_ident(g.name), ', ' ORDER BY g.name) INTO v_others
    FROM lakets._rollup_registry g WHERE g.source_rollup_id = v_id OR v_id = ANY (g.depends_on);
    IF v_others IS NOT NULL THEN
        RAISE EXCEPTION 'cannot drop the RollUp %: % depend on it', p_name, v_others USING HINT = 'Drop those first.';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('thermocline rollup ' || v_id, 0));
    SELECT * INTO STRICT v_rollup FROM lakets._rollup_registry WHERE id = v_id;
    PERFORM thermocline._drop_shadow(-v_id);
    IF to_regclass(v_rollup.realtime_view) IS NOT NULL THEN
        EXECUTE format('DROP VIEW %s', v_rollup.realtime_view);
    END IF;
    IF EXISTS (SELECT FROM pg_class WHERE oid = v_rollup.rollup_oid) THEN
        EXECUTE format('DROP TABLE %s', v_rollup.rollup_oid::regclass);
    END IF;
    DELETE FROM lakets._rollup_invalidation_log WHERE rollup_id = v_id;
    DELETE FROM lakets._rollup_recompute WHERE rollup_id = v_id;
    DELETE FROM lakets._rollup_registry WHERE id = v_id;
END
$$;

COMMENT ON FUNCTION lakets.drop_rollup(text) IS 'Drops a RollUp with its table and its real-time view.';
