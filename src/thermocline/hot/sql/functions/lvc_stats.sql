-- The last-value caches that there are.
CREATE OR REPLACE FUNCTION lakets.lvc_stats() RETURNS TABLE (
    chronotable   text,
    cache_table   text,
    cached_series bigint,
    key_columns   text,
    value_columns text,
    enabled       boolean
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_cache record;
BEGIN
    FOR v_cache IN
        SELECT r.schema_name || '.' || r.table_name AS chronotable, l.*
        FROM lakets._lvc_registry l JOIN lakets._chronotable_registry r ON r.id = l.chronotable_id ORDER BY 1
    LOOP
        EXECUTE format('SELECT count(*) FROM %s', v_cache.cache_oid::regclass) INTO cached_series;
        chronotable   := v_cache.chronotable;
        cache_table   := v_cache.cache_table_name;
        key_columns   := array_to_string(v_cache.key_columns, ', ');
        value_columns := array_to_string(v_cache.value_columns, ', ');
        enabled       := v_cache.enabled;
        RETURN NEXT;
    END LOOP;
END
$$;

COMMENT ON FUNCTION lakets.lvc_stats() IS 'Every last-value cache with its table, columns and number of keys.';
