-- The retention policy of a table, plain or tiered.
CREATE OR REPLACE FUNCTION lakets.show_retention_policy(
    p_table_name  text,
    p_schema_name text DEFAULT 'public'
) RETURNS TABLE (
    policy_id   int,
    policy_type text,
    drop_after  text,
    tier_after  text,
    enabled     boolean,
    last_run_at timestamptz
)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT p.id, p.policy_type, p.config ->> 'drop_after', p.config ->> 'tier_after', p.enabled, p.last_run_at
    FROM lakets._policy_registry p
    WHERE p.chronotable_id = lakets._chronotable_id(p_table_name, p_schema_name)
      AND p.policy_type IN ('retention', 'tiered_retention')
$$;

COMMENT ON FUNCTION lakets.show_retention_policy(text, text) IS
    'The retention policy of a ChronoTable; no row if it has none.';
