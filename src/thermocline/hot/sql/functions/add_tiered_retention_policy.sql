-- Both horizons in one: flagged as tiered p_tier_after the chunk's end, dropped p_drop_after it, and that on proof only.
CREATE OR REPLACE FUNCTION lakets.add_tiered_retention_policy(
    p_table_name  text,
    p_tier_after  interval,
    p_drop_after  interval,
    p_schema_name text DEFAULT 'public'
) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET intervalstyle = 'postgres'
AS $$
DECLARE
    v_id int := lakets._chronotable_id(p_table_name, p_schema_name);
BEGIN
    IF p_tier_after >= p_drop_after THEN
        RAISE EXCEPTION 'tier_after (%) of %.% must be shorter than drop_after (%)',
            p_tier_after, p_schema_name, p_table_name, p_drop_after
            USING HINT = 'A chunk is first proven in the lake, and dropped later.';
    END IF;
    RETURN lakets._add_policy(v_id, 'tiered_retention',
                              jsonb_build_object('tier_after', p_tier_after::text, 'drop_after', p_drop_after::text));
END
$$;

COMMENT ON FUNCTION lakets.add_tiered_retention_policy(text, interval, interval, text) IS
    'Has chunks flagged as tiered after p_tier_after and dropped, once proven, after p_drop_after; '
    'returns the policy''s id.';
