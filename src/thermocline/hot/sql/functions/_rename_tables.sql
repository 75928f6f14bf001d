-- Tables and time columns that have another name than the one they are registered under. Two tables may have swapped theirs,
-- so all of them give up the old ones first.
CREATE OR REPLACE FUNCTION thermocline._rename_tables() RETURNS TABLE (object text, finding text, done text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c_done constant text := 'registered under its new name';
    v_old  lakets._chronotable_registry[];
BEGIN
    SELECT array_agg(r) INTO v_old
    FROM lakets._chronotable_registry r
    JOIN pg_class c ON c.oid = r.table_oid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_partitioned_table p ON p.partrelid = c.oid
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0]
    WHERE (r.schema_name, r.table_name, r.time_column) <> (n.nspname, c.relname, a.attname);
    IF v_old IS NULL THEN
        RETURN;
    END IF;
    UPDATE lakets._chronotable_registry r SET table_name = format('%s (%s)', r.table_name, r.id)
    FROM unnest(v_old) o WHERE r.id = o.id;
    UPDATE lakets._chronotable_registry r SET schema_name = n.nspname, table_name = c.relname, time_column = a.attname
    FROM unnest(v_old) o, pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_partitioned_table p ON p.partrelid = c.oid
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0]
    WHERE r.id = o.id AND c.oid = r.table_oid;
    RETURN QUERY
    SELECT format('%I.%I', r.schema_name, r.table_name), y.finding, c_done
    FROM unnest(v_old) o
    JOIN lakets._chronotable_registry r ON r.id = o.id,
    LATERAL (VALUES
        (CASE WHEN (r.schema_name, r.table_name) <> (o.schema_name, o.table_name)
              THEN format('it was %I.%I before', o.schema_name, o.table_name) END),
        (CASE WHEN r.time_column <> o.time_column THEN format('its time column was called %I before', o.time_column) END)
    ) y (finding)
    WHERE y.finding IS NOT NULL
    ORDER BY r.id;
END
$$;

COMMENT ON FUNCTION thermocline._rename_tables() IS
    'Registers renamed tables and time columns under their new names; returns what was found and done.';
