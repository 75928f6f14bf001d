-- What the last-value cache of a ChronoTable holds. Name the columns that you expect:
-- SELECT * FROM lakets.latest_values('readings') AS r (sensor int, value float8, last_updated timestamptz).
CREATE OR REPLACE FUNCTION lakets.latest_values(p_table_name text, p_schema_name text DEFAULT 'public') RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_cache lakets._lvc_registry;
BEGIN
    PERFORM lakets._table_oid(p_table_name, p_schema_name);
    SELECT * INTO v_cache FROM lakets._lvc_registry
    WHERE chronotable_id = lakets._chronotable_id(p_table_name, p_schema_name);
    IF v_cache.id IS NOT NULL AND NOT (v_cache.enabled AND thermocline._lvc_fits(v_cache.id)) THEN
        RAISE EXCEPTION 'the last-value cache of %.% no longer fits its table', quote_ident(p_schema_name),
            quote_ident(p_table_name) USING HINT = 'lakets.disable_lvc and lakets.enable_lvc make it anew.';
    END IF;
    IF v_cache.id IS NULL THEN
        RAISE EXCEPTION 'the last-value cache of %.% is not enabled', quote_ident(p_schema_name), quote_ident(p_table_name)
            USING HINT = format('SELECT lakets.enable_lvc(%L, <keys>, <values>, %L) enables it.', p_table_name, p_schema_name);
    END IF;
    RETURN QUERY EXECUTE format('SELECT * FROM %s ORDER BY last_updated DESC', v_cache.cache_oid::regclass);
END
$$;

COMMENT ON FUNCTION lakets.latest_values(text, text) IS
    'The newest row of each key: keys, values and last_updated, newest first.';
