-- Lets late rows into a trap: they stream to the lake by way of the table, like those of any partition. TRUNCATE is refused while there
-- are any: it would leave no trace in the stream. The caller holds the trap's lock.
CREATE OR REPLACE FUNCTION thermocline._open_trap(p_trap oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_name text;
BEGIN
    FOR v_name IN SELECT t.tgname FROM pg_trigger t WHERE t.tgrelid = p_trap AND t.tgname = 'trg_thermocline_trap' LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', v_name, p_trap::regclass);
    END LOOP;
    FOR v_name IN
        SELECT c.conname FROM pg_constraint c
        WHERE c.conrelid = p_trap AND c.contype = 'c' AND c.conislocal AND pg_get_expr(c.conbin, c.conrelid) = 'false'
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', p_trap::regclass, v_name);
    END LOOP;
    EXECUTE format('CREATE OR REPLACE TRIGGER trg_thermocline_keep BEFORE TRUNCATE ON %s FOR EACH STATEMENT'
                   ' EXECUTE FUNCTION thermocline._keep_late_rows()', p_trap::regclass);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER trg_thermocline_keep', p_trap::regclass);
END
$$;

COMMENT ON FUNCTION thermocline._open_trap(oid) IS 'Lets late rows into a trap.';
