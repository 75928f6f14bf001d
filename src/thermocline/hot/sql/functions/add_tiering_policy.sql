-- From p_after on, chunks of the table are flagged as tiered once the lake has them. Removes nothing.
CREATE OR REPLACE FUNCTION lakets.add_tiering_policy(
    p_table_name  text,
    p_after       interval,
    p_schema_name text DEFAULT 'public'
) RETURNS int
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
SET intervalstyle = 'postgres'
AS $$
    SELECT lakets._add_policy(lakets._chronotable_id(p_table_name, p_schema_name), 'tiering',
                              jsonb_build_object('after', p_after::text))
$$;

COMMENT ON FUNCTION lakets.add_tiering_policy(text, interval, text) IS
    'Has chunks older than p_after flagged as tiered once they are proven in the lake; returns the policy''s id.';
