-- A chunk that joins a table in shadow mode gets the triggers that keep the mirror. Rows that it has already are mirrored by the feed, which
-- copies it for the first time: it is not covered yet.
CREATE OR REPLACE FUNCTION thermocline._mirror_new_chunk() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM thermocline.mirror m WHERE m.chronotable_id = NEW.chronotable_id) THEN
        PERFORM thermocline._watch(NEW.chunk_oid, 'trg_lakets_sync', format('thermocline._mirrored(%L)', NEW.chronotable_id));
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION thermocline._mirror_new_chunk() IS 'Trigger of lakets._chunk_metadata: new chunks are mirrored.';

CREATE OR REPLACE TRIGGER trg_lakets_mirror_insert AFTER INSERT ON lakets._chunk_metadata
    FOR EACH ROW WHEN (NEW.chunk_oid IS NOT NULL) EXECUTE FUNCTION thermocline._mirror_new_chunk();
CREATE OR REPLACE TRIGGER trg_lakets_mirror_update AFTER UPDATE OF chunk_oid ON lakets._chunk_metadata
    FOR EACH ROW WHEN (NEW.chunk_oid IS DISTINCT FROM OLD.chunk_oid AND NEW.chunk_oid IS NOT NULL AND NEW.status <> 'dropped')
    EXECUTE FUNCTION thermocline._mirror_new_chunk();
