-- Makes the mirror of a table that is registered for shadow mode, empty, and lets it stream. Its name is that of the table; another table's mirror
-- that has it already, from another schema, makes it be told apart by a hash. It belongs to the owner of this function, as the trigger's function
-- does, and nobody else has rights on it. The caller holds whatever keeps writers away.
CREATE OR REPLACE FUNCTION thermocline._make_shadow(p_chronotable_id int) RETURNS oid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_name text;
    v_oid  oid;
BEGIN
    SELECT lakets._short_name('_shadow_', CASE WHEN r.id < 0 THEN regexp_replace(r.table_name, '^_', '') ELSE r.table_name END, '')
    INTO STRICT v_name
    FROM thermocline.relation r JOIN thermocline.synced_table s ON s.chronotable_id = r.id
    WHERE r.id = p_chronotable_id AND s.mode = 'shadow' AND s.shadow_oid IS NULL;
    IF to_regclass(format('lakets_cdf.%I', v_name)) IS NOT NULL THEN
        SELECT lakets._short_name('_shadow_', r.table_name, '_' || left(md5(r.schema_name || '.' || r.table_name), 8)) INTO STRICT v_name
        FROM thermocline.relation r WHERE r.id = p_chronotable_id;
    END IF;
    EXECUTE format('CREATE TABLE lakets_cdf.%I ()', v_name);
    v_oid := to_regclass(format('lakets_cdf.%I', v_name));
    PERFORM thermocline._revoke_defaults(v_oid);
    EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', v_oid::regclass);
    UPDATE thermocline.synced_table SET shadow_oid = v_oid WHERE chronotable_id = p_chronotable_id;
    UPDATE lakets._chronotable_registry SET shadow_table_name = v_name WHERE id = p_chronotable_id;
    UPDATE lakets._rollup_registry SET shadow_table_name = v_name WHERE id = -p_chronotable_id;
    PERFORM thermocline._shape_mirror(p_chronotable_id);
    EXECUTE format('ALTER PUBLICATION thermocline ADD TABLE %s', v_oid::regclass);
    RETURN v_oid;
END
$$;

COMMENT ON FUNCTION thermocline._make_shadow(int) IS 'Makes the mirror of a table in shadow mode; returns its oid.';

REVOKE ALL ON FUNCTION thermocline._make_shadow(int) FROM PUBLIC;
