-- Brings the traps of a table to what it says of late rows, each one unless somebody is in the way; returns how many are not as they
-- should be. One that is opened for the first time is empty, so all that was ever committed of its range lies below the log's
-- position then. A position that is known stays: above it lies what the trap holds.
CREATE OR REPLACE FUNCTION thermocline._fit_traps(p_chronotable_id int) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_trap thermocline.trap;
    v_left int := 0;
BEGIN
    PERFORM FROM lakets._chronotable_registry WHERE id = p_chronotable_id FOR UPDATE;
    FOR v_trap IN
        SELECT * FROM thermocline.trap t
        WHERE t.chronotable_id = p_chronotable_id AND t.is_open <> t.takes_rows ORDER BY t.range_start
    LOOP
        BEGIN
            PERFORM thermocline._lock(v_trap.trap_oid, 'ACCESS EXCLUSIVE');
            IF v_trap.takes_rows THEN
                UPDATE thermocline.dropped_range SET settled_position = pg_current_wal_insert_lsn()
                WHERE trap_oid = v_trap.trap_oid AND settled_position IS NULL;
                PERFORM thermocline._open_trap(v_trap.trap_oid);
            ELSE
                PERFORM thermocline._close_trap(v_trap.trap_oid, v_trap.range_start, v_trap.range_end, v_trap.in_lake);
            END IF;
        EXCEPTION
            WHEN lock_not_available THEN
                v_left := v_left + 1;
        END;
    END LOOP;
    RETURN v_left;
END
$$;

COMMENT ON FUNCTION thermocline._fit_traps(int) IS
    'Opens and closes the traps of a table as it says of late rows; returns how many could not be for now.';
