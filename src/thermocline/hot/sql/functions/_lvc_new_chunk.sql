-- A chunk that joins a table with a last-value cache gets the triggers for it, and its rows are taken in if it has any.
CREATE OR REPLACE FUNCTION lakets._lvc_new_chunk() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_cache int := (SELECT id FROM lakets._lvc_registry WHERE chronotable_id = NEW.chronotable_id);
BEGIN
    IF v_cache IS NOT NULL THEN
        PERFORM thermocline._watch(NEW.chunk_oid, 'trg_lakets_lvc', 'lakets._lvc_changed()');
        IF thermocline._lvc_fits(v_cache) THEN
            EXECUTE lakets._lvc_statement(v_cache, 'latest', NEW.chunk_oid::regclass::text);
        END IF;
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
