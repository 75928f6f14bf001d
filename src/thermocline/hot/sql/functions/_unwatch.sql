-- Takes the triggers that call a function from a table and from all that is or was a chunk of it.
CREATE OR REPLACE FUNCTION thermocline._unwatch(p_chronotable_id int, p_table oid, p_function regprocedure) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_trigger record;
BEGIN
    FOR v_trigger IN
        SELECT tgname, tgrelid FROM pg_trigger
        WHERE tgfoid = p_function
          AND (tgrelid = p_table OR tgrelid IN (SELECT chunk_oid FROM lakets._chunk_metadata WHERE chronotable_id = p_chronotable_id)
               OR tgrelid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = p_table))
        ORDER BY tgrelid, tgname
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', v_trigger.tgname, v_trigger.tgrelid::regclass);
    END LOOP;
END
$$;

COMMENT ON FUNCTION thermocline._unwatch(int, oid, regprocedure) IS 'Takes the triggers that call a function from a table and its chunks.';
