-- Says whether buckets of a RollUp that need rows from both tiers are recomputed without being asked for, by a node. That needs Spark.
-- RollUps that are made from it follow in any case.
CREATE OR REPLACE FUNCTION lakets.set_rollup_recompute(p_name text, p_automatic boolean) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id   int := thermocline._own_rollup_id(p_name);
    v_from text := (SELECT s.name FROM lakets._rollup_registry g JOIN lakets._rollup_registry s ON s.id = g.source_rollup_id WHERE g.id = v_id);
BEGIN
    IF p_automatic IS NULL THEN
        RAISE EXCEPTION 'cannot tell whether % is to be recomputed by itself: NULL is neither', p_name USING HINT = 'Give true or false.';
    ELSIF v_from IS NOT NULL THEN
        RAISE EXCEPTION '% is made from the RollUp %, and follows when that one is recomputed', p_name, v_from
            USING HINT = format('SELECT lakets.set_rollup_recompute(%L, %s)', v_from, p_automatic);
    END IF;
    UPDATE lakets._rollup_registry SET auto_recompute = p_automatic WHERE id = v_id;
END
$$;

COMMENT ON FUNCTION lakets.set_rollup_recompute(text, boolean) IS
    'Whether buckets that need rows from both tiers are recomputed without being asked for.';
