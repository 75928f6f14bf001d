-- Drops a cache together with its entry, also when the entry goes because its ChronoTable does.
CREATE OR REPLACE FUNCTION lakets._lvc_forgotten() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_class WHERE oid = OLD.cache_oid) THEN
        EXECUTE format('DROP TABLE %s', OLD.cache_oid::regclass);
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION lakets._lvc_forgotten() IS 'Trigger of lakets._lvc_registry: drops the cache table of a deleted entry.';

CREATE OR REPLACE TRIGGER trg_lakets_lvc AFTER DELETE ON lakets._lvc_registry
    FOR EACH ROW EXECUTE FUNCTION lakets._lvc_forgotten();
