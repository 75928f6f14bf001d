-- The id of a ChronoTable by the name that it has now, or an error that names it.
CREATE OR REPLACE FUNCTION lakets._chronotable_id(p_table_name text, p_schema_name text) RETURNS int
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id int;
BEGIN
    IF p_table_name IS NULL OR p_schema_name IS NULL THEN
        RAISE EXCEPTION 'a ChronoTable is named by its table and its schema, not by NULL'
            USING HINT = '`thermocline tables` lists them.';
    END IF;
    SELECT id INTO v_id FROM lakets._chronotable_registry
    WHERE table_oid = to_regclass(format('%I.%I', p_schema_name, p_table_name));
    IF v_id IS NULL AND EXISTS (SELECT FROM lakets._chronotable_registry r
                                WHERE r.table_name = p_table_name AND r.schema_name = p_schema_name
                                  AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = r.table_oid)) THEN
        RAISE EXCEPTION '%.% was dropped by other means than lakets.drop_chronotable', p_schema_name, p_table_name
            USING HINT = 'SELECT * FROM lakets._reconcile(); takes note of it.';
    END IF;
    IF v_id IS NULL THEN
        RAISE EXCEPTION '%.% is not a ChronoTable', p_schema_name, p_table_name
            USING HINT = CASE
                WHEN to_regclass(format('%I.%I', p_schema_name, p_table_name)) IN (SELECT g.rollup_oid FROM lakets._rollup_registry g)
                THEN format('It is the table of a RollUp, which is called %L here.',
                            (SELECT g.name FROM lakets._rollup_registry g
                             WHERE g.rollup_oid = to_regclass(format('%I.%I', p_schema_name, p_table_name))))
                WHEN to_regclass(format('%I.%I', p_schema_name, p_table_name)) IS NULL
                THEN 'There is no table of that name. `thermocline tables` lists the ChronoTables'
                     || CASE WHEN p_table_name LIKE '%.%' THEN '; the schema is an argument of its own.' ELSE '.' END
                ELSE format('SELECT lakets.create_chronotable(%L, <time column>, p_schema_name => %L) makes it one.',
                            p_table_name, p_schema_name) END;
    END IF;
    RETURN v_id;
END
$$;

COMMENT ON FUNCTION lakets._chronotable_id(text, text) IS 'Id of the ChronoTable of this name; an error if there is none.';
