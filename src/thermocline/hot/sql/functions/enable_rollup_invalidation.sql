-- Lets writes to the past mark the buckets of a RollUp, as they do from its making on. If they did not for a while, nobody knows
-- what was written then, so everything is marked.
CREATE OR REPLACE FUNCTION lakets.enable_rollup_invalidation(p_rollup_name text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id int := thermocline._own_rollup_id(p_rollup_name);
BEGIN
    UPDATE lakets._rollup_registry SET tracked = true WHERE id = v_id AND NOT tracked;
    IF NOT FOUND THEN
        RAISE NOTICE 'writes to the past mark the buckets of % already', p_rollup_name;
        RETURN;
    END IF;
    PERFORM thermocline._mark_everything(v_id);
END
$$;

COMMENT ON FUNCTION lakets.enable_rollup_invalidation(text) IS
    'Lets writes to the past mark the buckets of a RollUp, which they do unless it was disabled.';
