-- Makes one trap of neighbouring ones, if the table is quiet enough for its lock; otherwise they stay as they are.
CREATE OR REPLACE FUNCTION thermocline._merge_traps(p_chronotable_id int) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_table oid;
BEGIN
    -- Nobody makes chunks of it or changes what it says of late rows meanwhile.
    SELECT table_oid INTO STRICT v_table FROM lakets._chronotable_registry WHERE id = p_chronotable_id FOR UPDATE NOWAIT;
    PERFORM thermocline._lock(v_table, 'ACCESS EXCLUSIVE');
    RETURN thermocline._set_traps(p_chronotable_id, true);
EXCEPTION
    WHEN lock_not_available THEN
        RETURN 0;
END
$$;

COMMENT ON FUNCTION thermocline._merge_traps(int) IS
    'Merges the traps of neighbouring dropped ranges of a quiet table; returns how many it made.';
