-- What the table of a RollUp needs to be synced: removals carry the whole row, and a TRUNCATE is told. Both stay when sync ends.
CREATE OR REPLACE FUNCTION thermocline._prepare_rollup(p_table oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (SELECT relreplident FROM pg_class WHERE oid = p_table) <> 'f' THEN
        EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', p_table::regclass);
    END IF;
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = p_table AND tgname = 'trg_lakets_truncated') THEN
        EXECUTE format('CREATE TRIGGER trg_lakets_truncated AFTER TRUNCATE ON %s EXECUTE FUNCTION thermocline._rollup_truncated()',
                       p_table::regclass);
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER trg_lakets_truncated', p_table::regclass);
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._prepare_rollup(oid) IS 'Lets every change of a RollUp''s table stream whole.';
