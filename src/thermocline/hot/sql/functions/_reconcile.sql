-- Compares what is registered with what PostgreSQL has, by oid, and mends it: renamed tables, time columns and chunks, tables
-- and chunks that were dropped by other means, partitions that somebody has attached. What it must not decide is
-- reported and left alone. Without an id it looks at the chunks of every ChronoTable. Nothing to say means that both agree.
CREATE OR REPLACE FUNCTION lakets._reconcile(p_chronotable_id int DEFAULT NULL)
RETURNS TABLE (object text, finding text, done text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET lock_timeout = '400ms'
AS $$
DECLARE
    v_table lakets._chronotable_registry;
    v_asked int[];
BEGIN
    SELECT coalesce(array_agg(r.id ORDER BY r.id), '{}') INTO v_asked FROM lakets._chronotable_registry r
    WHERE r.id = coalesce(p_chronotable_id, r.id);
    FOR v_table IN
        SELECT * FROM lakets._chronotable_registry r
        WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = r.table_oid) ORDER BY r.id FOR UPDATE
    LOOP
        RETURN QUERY SELECT * FROM thermocline._forget_table(v_table.id);
    END LOOP;
    RETURN QUERY SELECT * FROM thermocline._rename_tables();
    FOR v_table IN
        -- As its makers hold it: nobody makes or drops chunks of it meanwhile.
        SELECT * FROM lakets._chronotable_registry r WHERE r.id = ANY (v_asked) ORDER BY r.id FOR UPDATE
    LOOP
        RETURN QUERY SELECT * FROM thermocline._reconcile_chunks(v_table.id);
    END LOOP;
END
$$;

COMMENT ON FUNCTION lakets._reconcile(int) IS
    'Brings registry and catalog into agreement; returns what it found and what it did.';
