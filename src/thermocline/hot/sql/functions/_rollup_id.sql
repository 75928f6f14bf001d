-- The id of a RollUp by name, or an error that names it.
CREATE OR REPLACE FUNCTION thermocline._rollup_id(p_name text) RETURNS int
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id int := (SELECT id FROM lakets._rollup_registry WHERE name = p_name);
BEGIN
    IF v_id IS NULL THEN
        RAISE EXCEPTION 'there is no RollUp %', coalesce(p_name, 'without a name')
            USING HINT = 'SELECT name FROM lakets.show_rollups() lists them.';
    END IF;
    RETURN v_id;
END
$$;

COMMENT ON FUNCTION thermocline._rollup_id(text) IS 'Id of the RollUp of this name; an error if there is none.';
