-- Every RollUp: what it is made from, and how far.
CREATE OR REPLACE FUNCTION lakets.show_rollups() RETURNS TABLE (
    name              text,
    rollup_table      text,
    realtime_view     text,
    bucket_interval   interval,
    refresh_lag       interval,
    watermark         timestamptz,
    last_refreshed_at timestamptz,
    source_table      text,
    bucket_column     text,
    depends_on        int[]
)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT g.name, g.rollup_table, g.realtime_view, g.bucket_interval, g.refresh_lag, g.watermark, g.last_refreshed_at,
           coalesce(t.schema_name || '.' || t.table_name, 'N/A'), g.bucket_column, g.depends_on
    FROM lakets._rollup_registry g LEFT JOIN lakets._chronotable_registry t ON t.id = g.source_chronotable_id
    ORDER BY g.name
$$;

COMMENT ON FUNCTION lakets.show_rollups() IS 'Every RollUp with its source, its watermark and its last refresh.';
