-- Whether a trap has rows, as far as whoever asks can tell; where that is in doubt, it has. The caller holds a lock that keeps writers off.
CREATE OR REPLACE FUNCTION thermocline._trap_has_rows(p_trap oid) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $$
DECLARE
    v_found boolean;
BEGIN
    IF pg_relation_size(p_trap) = 0 THEN
        RETURN false;
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN true;  -- an older snapshot does not show them all
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s)', p_trap::regclass) INTO v_found;
    RETURN v_found;
EXCEPTION
    WHEN insufficient_privilege THEN
        RETURN true;
END
$$;

COMMENT ON FUNCTION thermocline._trap_has_rows(oid) IS 'Whether a trap has rows; true where that is in doubt.';
