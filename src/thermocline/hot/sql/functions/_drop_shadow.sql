-- Drops the mirror of a table, if it has one; its history in the lake stays. Refuses nothing: a table without mirror is left as it is.
CREATE OR REPLACE FUNCTION thermocline._drop_shadow(p_chronotable_id int) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_shadow oid := (SELECT s.shadow_oid FROM thermocline.synced_table s JOIN pg_class c ON c.oid = s.shadow_oid
                     WHERE s.chronotable_id = p_chronotable_id);
BEGIN
    IF v_shadow IS NOT NULL THEN
        EXECUTE format('DROP TABLE %s', v_shadow::regclass);
    END IF;
    UPDATE thermocline.synced_table SET shadow_oid = NULL WHERE chronotable_id = p_chronotable_id;
    DELETE FROM thermocline.mirror WHERE chronotable_id = p_chronotable_id;
    DELETE FROM thermocline.mirror_doubt WHERE chronotable_id = p_chronotable_id;
    DELETE FROM thermocline.mended_chunk WHERE chronotable_id = p_chronotable_id;
    UPDATE lakets._chronotable_registry SET shadow_table_name = NULL WHERE id = p_chronotable_id;
    UPDATE lakets._rollup_registry SET shadow_table_name = NULL WHERE id = -p_chronotable_id;
END
$$;

COMMENT ON FUNCTION thermocline._drop_shadow(int) IS 'Drops the mirror of a table, if it has one.';

REVOKE ALL ON FUNCTION thermocline._drop_shadow(int) FROM PUBLIC;
