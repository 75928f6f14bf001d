-- RollUps in an order in which every one comes after those that it depends on: the given ones with all that they depend on, or all.
-- An error that names those in a circle, if there is one.
CREATE OR REPLACE FUNCTION lakets._build_rollup_dag(p_root_ids int[] DEFAULT NULL) RETURNS int[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_left  int[];
    v_ready int[];
    v_order int[] := '{}';
BEGIN
    WITH RECURSIVE wanted AS (
        SELECT g.id, g.depends_on FROM lakets._rollup_registry g WHERE p_root_ids IS NULL OR g.id = ANY (p_root_ids)
        UNION
        SELECT g.id, g.depends_on FROM wanted w JOIN lakets._rollup_registry g ON g.id = ANY (w.depends_on)
    )
    SELECT coalesce(array_agg(id), '{}') INTO v_left FROM wanted;
    WHILE cardinality(v_left) > 0 LOOP
        SELECT array_agg(g.id ORDER BY g.id) INTO v_ready FROM lakets._rollup_registry g
        WHERE g.id = ANY (v_left) AND NOT g.depends_on && v_left;
        IF v_ready IS NULL THEN
            RAISE EXCEPTION 'circular dependency among the RollUps %',
                (SELECT string_agg(quote_ident(g.name), ', ' ORDER BY g.name) FROM lakets._rollup_registry g WHERE g.id = ANY (v_left))
                USING HINT = 'UPDATE lakets._rollup_registry SET depends_on = ... breaks the circle.';
        END IF;
        v_order := v_order || v_ready;
        SELECT coalesce(array_agg(x), '{}') INTO v_left FROM unnest(v_left) x WHERE NOT x = ANY (v_ready);
    END LOOP;
    RETURN v_order;
END
$$;

COMMENT ON FUNCTION lakets._build_rollup_dag(int[]) IS
    'Ids of RollUps, dependencies before dependents; an error when they form a circle.';
