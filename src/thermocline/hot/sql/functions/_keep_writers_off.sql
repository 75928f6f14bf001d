-- Locks a table with its chunks, for a moment: waits for whoever writes to it now, not long at a time, so that those who come after do not
-- queue for long. Tries for some seconds, then refuses.
CREATE OR REPLACE FUNCTION thermocline._keep_writers_off(p_table oid, p_mode text, p_what text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c_attempts constant int := 20;
BEGIN
    FOR v_attempt IN 1 .. c_attempts LOOP
        BEGIN
            PERFORM thermocline._give_way(format('LOCK TABLE %s IN %s MODE', p_table::regclass, p_mode));
            RETURN;
        EXCEPTION
            WHEN lock_not_available THEN
                IF v_attempt = c_attempts THEN
                    RAISE EXCEPTION '%: a transaction that uses the table is open', p_what
                        USING ERRCODE = 'lock_not_available',
                              HINT = 'Nothing was changed. Try again when it has ended; pg_stat_activity shows long transactions.';
                END IF;
                PERFORM pg_sleep(0.1);
        END;
    END LOOP;
END
$$;

COMMENT ON FUNCTION thermocline._keep_writers_off(oid, text, text) IS 'Locks a table with its chunks, or refuses after some seconds.';
