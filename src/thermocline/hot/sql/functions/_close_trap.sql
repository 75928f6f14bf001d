-- Has a trap refuse rows: the trigger says it well, the constraint holds even where triggers are disabled. Rows that it has already stay,
-- and may be deleted. The caller holds the trap's lock.
CREATE OR REPLACE FUNCTION thermocline._close_trap(
    p_trap    oid,
    p_start   timestamptz,
    p_end     timestamptz,
    p_in_lake boolean
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ADD CHECK (false)%s', p_trap::regclass,
                   CASE WHEN pg_relation_size(p_trap) > 0 THEN ' NOT VALID' ELSE '' END);
    EXECUTE format(
        'CREATE TRIGGER trg_thermocline_trap BEFORE INSERT OR UPDATE ON %s FOR EACH ROW'
        ' EXECUTE FUNCTION thermocline._late_row(%L, %L, %L)', p_trap::regclass, p_start, p_end,
        CASE WHEN p_in_lake THEN 'lake' ELSE 'nowhere' END);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER trg_thermocline_trap', p_trap::regclass);
END
$$;

COMMENT ON FUNCTION thermocline._close_trap(oid, timestamptz, timestamptz, boolean) IS
    'Has a trap refuse late rows, and say whether the lake has its range.';
