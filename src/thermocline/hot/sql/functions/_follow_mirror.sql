-- Lets a mirror follow the columns of its table, if they have changed; returns whether they had. Writers are kept off for a moment, and left
-- alone if that moment does not come soon: then they leave doubts, and it is tried again.
CREATE OR REPLACE FUNCTION thermocline._follow_mirror(p_chronotable_id int) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '400ms'
AS $$
DECLARE
    v_synced thermocline.synced_table;
BEGIN
    PERFORM set_config('lock_timeout', least(400, s.setting::int / 2)::text, true)
    FROM pg_settings s WHERE s.name = 'deadlock_timeout';
    SELECT * INTO v_synced FROM thermocline.synced_table WHERE chronotable_id = p_chronotable_id AND shadow_oid IS NOT NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE ONLY %s IN ACCESS SHARE MODE', v_synced.table_oid::regclass);
    PERFORM pg_advisory_xact_lock(hashtext('thermocline mirror'), v_synced.table_oid::int);
    EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', v_synced.shadow_oid::regclass);
    IF EXISTS (SELECT FROM thermocline.mirror m
               WHERE m.chronotable_id = p_chronotable_id AND m.columns = thermocline._columns_told(v_synced.table_oid)) THEN
        RETURN false;
    END IF;
    PERFORM thermocline._shape_mirror(p_chronotable_id);
    RETURN true;
END
$$;

COMMENT ON FUNCTION thermocline._follow_mirror(int) IS 'Lets a mirror follow the columns of its table; returns whether they had changed.';
