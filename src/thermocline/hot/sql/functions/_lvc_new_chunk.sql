-- A chunk that is made while its table has a last-value cache gets the triggers for it.
CREATE OR REPLACE FUNCTION lakets._lvc_new_chunk() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM lakets._lvc_registry WHERE chronotable_id = NEW.chronotable_id) THEN
        PERFORM lakets._lvc_watch(NEW.chunk_oid);
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION lakets._lvc_new_chunk() IS 'Trigger of lakets._chunk_metadata: new chunks join the last-value cache.';

CREATE OR REPLACE TRIGGER trg_lakets_lvc_insert AFTER INSERT ON lakets._chunk_metadata
    FOR EACH ROW WHEN (NEW.chunk_oid IS NOT NULL) EXECUTE FUNCTION lakets._lvc_new_chunk();
CREATE OR REPLACE TRIGGER trg_lakets_lvc_update AFTER UPDATE OF chunk_oid ON lakets._chunk_metadata
    FOR EACH ROW WHEN (NEW.chunk_oid IS DISTINCT FROM OLD.chunk_oid AND NEW.chunk_oid IS NOT NULL AND NEW.status <> 'dropped')
    EXECUTE FUNCTION lakets._lvc_new_chunk();
