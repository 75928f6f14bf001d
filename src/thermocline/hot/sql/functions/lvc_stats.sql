-- The last-value caches that there are.
CREATE OR REPLACE FUNCTION lakets.lvc_stats() RETURNS TABLE (
    chronotable   text,
    cache_table   text,
    cached_series bigint,
    key_columns   text,
    value_columns text,
    enabled       boolean
)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT r.schema_name || '.' || r.table_name, l.cache_table_name, thermocline._cached_series(l.id),
           array_to_string(l.key_columns, ', '), array_to_string(l.value_columns, ', '), l.enabled
    FROM lakets._lvc_registry l JOIN lakets._chronotable_registry r ON r.id = l.chronotable_id
    ORDER BY 1
$$;

COMMENT ON FUNCTION lakets.lvc_stats() IS
    'Every last-value cache with its table, columns and number of keys, which is NULL if the cache no longer fits its table.';
