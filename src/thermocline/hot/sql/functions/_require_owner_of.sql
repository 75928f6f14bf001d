-- Whoever decides over a table is its owner, or a member of the role that is.
CREATE OR REPLACE FUNCTION thermocline._require_owner_of(p_table oid) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_owner oid := (SELECT relowner FROM pg_class WHERE oid = p_table);
BEGIN
    IF NOT pg_has_role(v_owner, 'USAGE') THEN
        RAISE EXCEPTION 'must be owner of table %', p_table::regclass
            USING ERRCODE = 'insufficient_privilege', HINT = format('It belongs to %I.', pg_get_userbyid(v_owner));
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._require_owner_of(oid) IS 'Refuses whoever does not own a table; one that is gone is nobody''s.';
