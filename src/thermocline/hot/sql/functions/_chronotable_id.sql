-- The id of a ChronoTable by name, or an error that names it.
CREATE OR REPLACE FUNCTION lakets._chronotable_id(p_table_name text, p_schema_name text) RETURNS int
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id int;
BEGIN
    SELECT id INTO v_id FROM lakets._chronotable_registry
    WHERE table_name = p_table_name AND schema_name = p_schema_name;
    IF v_id IS NULL THEN
        RAISE EXCEPTION '%.% is not a ChronoTable', p_schema_name, p_table_name
            USING HINT = format('SELECT lakets.create_chronotable(%L, <time column>, p_schema_name => %L) makes it one.',
                                p_table_name, p_schema_name);
    END IF;
    RETURN v_id;
END
$$;

COMMENT ON FUNCTION lakets._chronotable_id(text, text) IS 'Id of the ChronoTable of this name; an error if there is none.';
