-- Gives a ChronoTable the index on its time column, under the name that is documented. If something else has that name,
-- PostgreSQL chooses one; an index of the table's own by that name that serves as well is enough. It goes upwards: time does, so rows
-- come at its right end, where PostgreSQL finds the page at once and fills it. Downwards it takes more time and nearly twice the space.
CREATE OR REPLACE FUNCTION thermocline._index_time(p_chronotable_id int) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_table lakets._chronotable_registry;
    v_name  text;
    v_taken oid;
BEGIN
    SELECT * INTO STRICT v_table FROM lakets._chronotable_registry WHERE id = p_chronotable_id;
    v_name  := lakets._short_name('idx_', v_table.table_name || '_' || v_table.time_column, '');
    v_taken := to_regclass(format('%I.%I', v_table.schema_name, v_name));
    IF EXISTS (SELECT FROM pg_index i
               JOIN pg_class c ON c.oid = i.indexrelid
               JOIN pg_am m ON m.oid = c.relam AND m.amname = 'btree'
               JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] AND a.attname = v_table.time_column
               WHERE i.indexrelid = v_taken AND i.indrelid = v_table.table_oid AND i.indpred IS NULL) THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE INDEX %s ON %s (%I)', CASE WHEN v_taken IS NULL THEN quote_ident(v_name) END,
                   v_table.table_oid::regclass, v_table.time_column);
END
$$;

COMMENT ON FUNCTION thermocline._index_time(int) IS
    'Makes the index of a ChronoTable on its time column, idx_<table>_<time column> unless something else has that name.';
