-- The tiering policy of a table.
CREATE OR REPLACE FUNCTION lakets.show_tiering_policy(
    p_table_name  text,
    p_schema_name text DEFAULT 'public'
) RETURNS TABLE (policy_id int, after text, enabled boolean, last_run_at timestamptz)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT p.id, p.config ->> 'after', p.enabled, p.last_run_at
    FROM lakets._policy_registry p
    WHERE p.chronotable_id = lakets._chronotable_id(p_table_name, p_schema_name) AND p.policy_type = 'tiering'
$$;

COMMENT ON FUNCTION lakets.show_tiering_policy(text, text) IS 'The tiering policy of a ChronoTable; no row if it has none.';
