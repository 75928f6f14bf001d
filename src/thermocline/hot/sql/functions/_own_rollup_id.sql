-- The id of a RollUp that the caller decides over, or an error that says why it is not: there is none, its table is gone, or somebody
-- else owns it.
CREATE OR REPLACE FUNCTION thermocline._own_rollup_id(p_name text) RETURNS int
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id    int := thermocline._rollup_id(p_name);
    v_owner oid := (SELECT c.relowner FROM lakets._rollup_registry g JOIN pg_class c ON c.oid = g.rollup_oid WHERE g.id = v_id);
BEGIN
    PERFORM thermocline._require_rollup_table(v_id);
    IF NOT pg_has_role(v_owner, 'USAGE') THEN
        RAISE EXCEPTION 'must be owner of the RollUp %', p_name
            USING ERRCODE = 'insufficient_privilege', HINT = format('It belongs to %I.', pg_get_userbyid(v_owner));
    END IF;
    RETURN v_id;
END
$$;

COMMENT ON FUNCTION thermocline._own_rollup_id(text) IS 'Id of a RollUp that belongs to the caller; an error otherwise.';
