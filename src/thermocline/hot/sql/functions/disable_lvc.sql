-- Ends the last-value cache of a ChronoTable: triggers, cache table and entry go.
CREATE OR REPLACE FUNCTION lakets.disable_lvc(p_table_name text, p_schema_name text DEFAULT 'public') RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id    int;
    v_table oid;
BEGIN
    PERFORM lakets._table_oid(p_table_name, p_schema_name);
    SELECT id, table_oid INTO STRICT v_id, v_table FROM lakets._chronotable_registry
    WHERE id = lakets._chronotable_id(p_table_name, p_schema_name) FOR UPDATE;
    IF NOT EXISTS (SELECT FROM lakets._lvc_registry WHERE chronotable_id = v_id) THEN
        RAISE EXCEPTION 'the last-value cache of %.% is not enabled', quote_ident(p_schema_name), quote_ident(p_table_name)
            USING HINT = 'SELECT * FROM lakets.lvc_stats() shows which are.';
    END IF;
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', v_table::regclass);
    PERFORM thermocline._unwatch(v_id, v_table, 'lakets._lvc_changed()');
    DELETE FROM lakets._lvc_registry WHERE chronotable_id = v_id;
END
$$;

COMMENT ON FUNCTION lakets.disable_lvc(text, text) IS 'Removes the last-value cache of a ChronoTable.';
