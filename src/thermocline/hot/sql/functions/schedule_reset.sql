-- A table follows the schedule for all again.
CREATE OR REPLACE FUNCTION lakets.schedule_reset(p_kind text, p_table_name text, p_schema_name text DEFAULT 'public') RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_table int := lakets._chronotable_id(p_table_name, p_schema_name);
BEGIN
    PERFORM thermocline._require_owner(v_table);
    DELETE FROM thermocline.schedule WHERE kind = p_kind AND chronotable_id = v_table;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_kind = 'partitions' THEN
        PERFORM thermocline._follow_schedule(v_table);
    END IF;
    RETURN true;
END
$$;

COMMENT ON FUNCTION lakets.schedule_reset(text, text, text) IS
    'Removes a ChronoTable''s own schedule for a kind of background work; false if it had none.';
