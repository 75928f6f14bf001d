-- A transaction that has refreshed a RollUp ends: if it has written rows of the source after that, the next refresh must not take its id
-- for a sign that nothing has happened since.
CREATE OR REPLACE FUNCTION thermocline._written_after() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF thermocline._written(NEW.source_oid) <> NEW.written THEN
        UPDATE lakets._rollup_registry SET frontier_xid = NULL WHERE id = NEW.id;
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION thermocline._written_after() IS
    'Trigger of the registry of RollUps, at the end of a transaction: notices rows that were written after a refresh in it.';

REVOKE ALL ON FUNCTION thermocline._written_after() FROM PUBLIC;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = 'lakets._rollup_registry'::pg_catalog.regclass
                                                       AND tgname = 'trg_written_after') THEN
        CREATE CONSTRAINT TRIGGER trg_written_after AFTER UPDATE OF frontier_xid ON lakets._rollup_registry
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
            WHEN (NEW.frontier_xid IS NOT NULL AND NEW.frontier_xid IS DISTINCT FROM OLD.frontier_xid)
            EXECUTE FUNCTION thermocline._written_after();
        ALTER TABLE lakets._rollup_registry ENABLE ALWAYS TRIGGER trg_written_after;
    END IF;
END
$$;
