-- Refuses a RollUp whose table somebody has dropped.
CREATE OR REPLACE FUNCTION thermocline._require_rollup_table(p_rollup lakets._rollup_registry) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class WHERE oid = p_rollup.rollup_oid) THEN
        RAISE EXCEPTION 'the table of the RollUp % was dropped by other means than lakets.drop_rollup', p_rollup.name
            USING HINT = format('SELECT lakets.drop_rollup(%L) takes away what is left of it.', p_rollup.name);
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._require_rollup_table(lakets._rollup_registry) IS 'Refuses a RollUp whose table is gone.';
