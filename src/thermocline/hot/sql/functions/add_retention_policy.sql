-- Chunks of the table are dropped p_drop_after their end: on proof if the table is synced, outright if not.
CREATE OR REPLACE FUNCTION lakets.add_retention_policy(
    p_table_name  text,
    p_drop_after  interval,
    p_schema_name text DEFAULT 'public'
) RETURNS int
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
SET intervalstyle = 'postgres'
AS $$
    SELECT lakets._add_policy(lakets._chronotable_id(p_table_name, p_schema_name), 'retention',
                              jsonb_build_object('drop_after', p_drop_after::text))
$$;

COMMENT ON FUNCTION lakets.add_retention_policy(text, interval, text) IS
    'Has chunks dropped p_drop_after their end; returns the policy''s id.';
