-- The chunks of every ChronoTable, counted by state.
CREATE OR REPLACE FUNCTION lakets.chunk_health() RETURNS TABLE (
    chronotable    text,
    total_chunks   bigint,
    active_chunks  bigint,
    tiered_chunks  bigint,
    dropped_chunks bigint,
    oldest_active  timestamptz,
    newest_active  timestamptz
)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT r.schema_name || '.' || r.table_name, count(m.id),
           count(*) FILTER (WHERE m.status = 'active'),
           count(*) FILTER (WHERE m.status = 'tiered'),
           count(*) FILTER (WHERE m.status = 'dropped'),
           min(m.range_start) FILTER (WHERE m.status = 'active'),
           max(m.range_end) FILTER (WHERE m.status = 'active')
    FROM lakets._chronotable_registry r LEFT JOIN lakets._chunk_metadata m ON m.chronotable_id = r.id
    GROUP BY r.id ORDER BY 1
$$;

COMMENT ON FUNCTION lakets.chunk_health() IS
    'Per ChronoTable the number of its chunks in each state, and where its active chunks begin and end.';
