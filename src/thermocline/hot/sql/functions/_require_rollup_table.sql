-- Refuses a RollUp whose table somebody has dropped.
CREATE OR REPLACE FUNCTION thermocline._require_rollup_table(p_rollup_id int) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_rollup lakets._rollup_registry;
BEGIN
    SELECT * INTO STRICT v_rollup FROM lakets._rollup_registry WHERE id = p_rollup_id;
    IF NOT EXISTS (SELECT FROM pg_class WHERE oid = v_rollup.rollup_oid) THEN
        RAISE EXCEPTION 'the table of the RollUp % was dropped by other means than lakets.drop_rollup', v_rollup.name
            USING HINT = format('SELECT lakets.drop_rollup(%L) takes away what is left of it.', v_rollup.name);
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._require_rollup_table(int) IS 'Refuses a RollUp whose table is gone.';
