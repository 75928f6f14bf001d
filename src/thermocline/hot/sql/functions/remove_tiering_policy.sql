-- Removes the tiering policy of a table. The state of its chunks stays as it is.
CREATE OR REPLACE FUNCTION lakets.remove_tiering_policy(
    p_table_name  text,
    p_schema_name text DEFAULT 'public'
) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT lakets._remove_policies(lakets._chronotable_id(p_table_name, p_schema_name), ARRAY['tiering'])
$$;

COMMENT ON FUNCTION lakets.remove_tiering_policy(text, text) IS 'Removes the tiering policy of a ChronoTable.';
