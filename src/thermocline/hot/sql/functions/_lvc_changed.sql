-- Keeps the last-value cache of a ChronoTable while it is written to, once per statement. Runs with its owner's rights, since
-- whoever writes need not have any on the cache. Which cache it is follows from the table that fired it, never from
-- arguments: anybody may put this trigger on a table of his own. What was taken away or changed is looked up in the table
-- again, with the cache's rows locked first, so that a writer of the same key comes before or after and is not missed.
CREATE OR REPLACE FUNCTION lakets._lvc_changed() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
    v_cache  lakets._lvc_registry;
    v_source text;
    v_empty  boolean;
BEGIN
    SELECT l.* INTO v_cache
    FROM lakets._lvc_registry l JOIN lakets._chronotable_registry r ON r.id = l.chronotable_id
    WHERE r.table_oid = pg_partition_root(TG_RELID) AND l.enabled;
    IF NOT FOUND THEN
        RETURN NULL;  -- a chunk that has left its table
    END IF;
    IF NOT thermocline._lvc_fits(v_cache.id) THEN  -- whoever writes must not suffer for it
        UPDATE lakets._lvc_registry SET enabled = false WHERE id = v_cache.id;
        RAISE WARNING 'the last-value cache of % no longer fits its table and is not kept any more', pg_partition_root(TG_RELID)
            USING HINT = 'lakets.disable_lvc and lakets.enable_lvc make it anew.';
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        EXECUTE lakets._lvc_statement(v_cache.id, 'latest', 'new_rows');
        RETURN NULL;
    END IF;
    IF TG_OP = 'TRUNCATE' THEN
        EXECUTE format('SELECT NOT EXISTS (SELECT FROM %s)', v_cache.cache_oid::regclass) INTO v_empty;
        IF v_empty THEN
            RETURN NULL;  -- TRUNCATE of a table fires for each of its chunks too, and the first has done it
        END IF;
    END IF;
    SELECT format(CASE TG_OP WHEN 'UPDATE' THEN '(SELECT %1$s FROM old_rows UNION SELECT %1$s FROM new_rows)'
                             WHEN 'DELETE' THEN '(SELECT %1$s FROM old_rows)'
                             ELSE '(SELECT %1$s FROM %2$s)' END,
                  string_agg(quote_ident(k), ', ' ORDER BY n), v_cache.cache_oid::regclass)
    INTO v_source FROM unnest(v_cache.key_columns) WITH ORDINALITY u(k, n);
    EXECUTE lakets._lvc_statement(v_cache.id, 'lock', v_source);
    EXECUTE lakets._lvc_statement(v_cache.id, 'again', v_source);
    EXECUTE lakets._lvc_statement(v_cache.id, 'gone', v_source);
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION lakets._lvc_changed() IS 'Trigger of every table and chunk with a last-value cache: keeps it.';
