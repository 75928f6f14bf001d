-- The id of a RollUp that the caller decides over, or an error that says why it is not: there is none, its table is gone, or somebody
-- else owns it.
CREATE OR REPLACE FUNCTION thermocline._own_rollup_id(p_name text) RETURNS int
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id int := thermocline._rollup_id(p_name);
BEGIN
    PERFORM thermocline._require_rollup_table(g), thermocline._require_owner_of(g.rollup_oid) FROM lakets._rollup_registry g WHERE g.id = v_id;
    RETURN v_id;
END
$$;

COMMENT ON FUNCTION thermocline._own_rollup_id(text) IS 'Id of a RollUp that belongs to the caller; an error otherwise.';
