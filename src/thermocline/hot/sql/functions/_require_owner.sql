-- Whoever decides over a table's chunks is its owner, or a member of the role that is.
CREATE OR REPLACE FUNCTION thermocline._require_owner(p_chronotable_id int) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_table record;
BEGIN
    SELECT r.table_oid::regclass AS name, c.relowner INTO v_table
    FROM lakets._chronotable_registry r JOIN pg_class c ON c.oid = r.table_oid WHERE r.id = p_chronotable_id;
    IF FOUND AND NOT pg_has_role(v_table.relowner, 'USAGE') THEN
        RAISE EXCEPTION 'must be owner of table %', v_table.name
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('It belongs to %I.', pg_get_userbyid(v_table.relowner));
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._require_owner(int) IS 'Refuses whoever does not own a ChronoTable.';
