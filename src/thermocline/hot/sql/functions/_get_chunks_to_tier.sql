-- Chunks that a table's tiering policy has come to and that are not tiered yet, oldest first.
CREATE OR REPLACE FUNCTION lakets._get_chunks_to_tier(
    p_table_name  text,
    p_schema_name text DEFAULT 'public'
) RETURNS TABLE (chunk_id int, chunk_name text, range_start timestamptz, range_end timestamptz)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT m.id, m.chunk_name, m.range_start, m.range_end
    FROM lakets._chunk_metadata m
    WHERE m.chronotable_id = lakets._chronotable_id(p_table_name, p_schema_name) AND m.status = 'active'
      AND EXISTS (SELECT FROM lakets._policy_registry p
                  WHERE p.chronotable_id = m.chronotable_id AND p.enabled AND p.policy_type IN ('tiering', 'tiered_retention')
                    AND m.range_end <= now() - coalesce(p.config ->> 'after', p.config ->> 'tier_after')::interval)
    ORDER BY m.range_start
$$;

COMMENT ON FUNCTION lakets._get_chunks_to_tier(text, text) IS
    'Active chunks of a ChronoTable that are older than its tiering policy says, oldest first.';
