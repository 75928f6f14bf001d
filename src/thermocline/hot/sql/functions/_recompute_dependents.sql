-- RollUps over a RollUp: the buckets that have a part in p_times are computed anew from its rows, which are all resident, unless they
-- have a part in something that it still has only a part of. Then those that are made from them.
CREATE OR REPLACE FUNCTION thermocline._recompute_dependents(p_rollup_id int, p_times tstzmultirange) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id     int;
    v_rollup lakets._rollup_registry;
    v_times  tstzmultirange;
BEGIN
    FOR v_id IN SELECT g.id FROM lakets._rollup_registry g WHERE g.source_rollup_id = p_rollup_id ORDER BY g.id LOOP
        PERFORM pg_advisory_xact_lock(hashtextextended('thermocline rollup ' || v_id, 0));
        SELECT * INTO v_rollup FROM lakets._rollup_registry WHERE id = v_id;
        CONTINUE WHEN NOT FOUND;
        v_times := thermocline._buckets_over(v_rollup, p_times) - thermocline._frozen_buckets(v_rollup);
        CONTINUE WHEN isempty(v_times);
        PERFORM thermocline._recompute_ranges(v_rollup, (SELECT array_agg(r) FROM unnest(v_times) r));
        UPDATE lakets._rollup_registry SET incomplete = incomplete - v_times WHERE id = v_id;
        PERFORM thermocline._recompute_dependents(v_id, v_times);
    END LOOP;
END
$$;

COMMENT ON FUNCTION thermocline._recompute_dependents(int, tstzmultirange) IS
    'Computes the buckets anew of the RollUps that are made from one.';
