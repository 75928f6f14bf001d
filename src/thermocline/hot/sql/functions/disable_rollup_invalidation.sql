-- Writes to the past no longer mark the buckets of a RollUp, and the marks that it has are forgotten.
CREATE OR REPLACE FUNCTION lakets.disable_rollup_invalidation(p_rollup_name text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id int := thermocline._own_rollup_id(p_rollup_name);
BEGIN
    UPDATE lakets._rollup_registry SET tracked = false WHERE id = v_id;
    DELETE FROM lakets._rollup_invalidation_log WHERE rollup_id = v_id;
END
$$;

COMMENT ON FUNCTION lakets.disable_rollup_invalidation(text) IS
    'Writes to the past no longer mark the buckets of a RollUp; its marks are forgotten.';
