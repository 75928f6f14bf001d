-- What there is to watch, as names, numbers and labels: one row per time series of a monitoring system.
CREATE OR REPLACE FUNCTION lakets.lakets_metrics() RETURNS TABLE (metric_name text, metric_value float8, labels jsonb)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH tables AS (
        SELECT r.*, r.schema_name || '.' || r.table_name AS full_name FROM lakets._chronotable_registry r
    )
    SELECT 'lakets_chronotables_total', count(*)::float8, jsonb '{}' FROM tables
    UNION ALL
    SELECT 'lakets_chunks_total', count(m.id), jsonb_build_object('status', x.status)
    FROM unnest('{active, tiered, dropped}'::text[]) x (status) LEFT JOIN lakets._chunk_metadata m USING (status)
    GROUP BY x.status
    UNION ALL
    SELECT 'lakets_estimated_rows', coalesce(sum(thermocline._estimated_rows(c.oid, c.reltuples)), 0),
           jsonb_build_object('table', t.full_name)
    FROM tables t
    LEFT JOIN lakets._chunk_metadata m ON m.chronotable_id = t.id AND m.status <> 'dropped'
    LEFT JOIN pg_class c ON c.oid = m.chunk_oid
    GROUP BY t.full_name
    UNION ALL
    SELECT x.name, x.value, jsonb_build_object('table', t.schema_name || '.' || t.table_name)
    FROM lakets.show_tiering_status() t,
         LATERAL (VALUES ('lakets_tiering_pending_chunks', t.pending_chunks::float8),
                         ('lakets_tiering_tiered_chunks_total', t.tiered_chunks::float8),
                         ('lakets_tiering_caught_up', t.caught_up::int::float8)) x (name, value)
    UNION ALL
    SELECT x.name, greatest(0, x.value), jsonb_build_object('rollup', g.name)
    FROM lakets._rollup_registry g,
         LATERAL (VALUES ('lakets_rollup_watermark_lag_seconds',
                          CASE WHEN isfinite(g.watermark) THEN extract(epoch FROM now() - g.watermark)::float8 END),
                         ('lakets_rollup_refresh_lag_seconds', extract(epoch FROM now() - g.last_refreshed_at)::float8),
                         ('lakets_rollup_invalidation_log_depth', (SELECT count(*) FROM thermocline._marks(g))::float8)) x (name, value)
    WHERE x.value IS NOT NULL  -- a RollUp of an empty table may have none
    UNION ALL
    SELECT 'lakets_sync_enabled', t.sync_enabled::int, jsonb_build_object('table', t.full_name) FROM tables t
    UNION ALL
    SELECT 'lakets_policies_total', count(p.id), jsonb_build_object('type', x.policy_type)
    FROM unnest('{tiering, retention, tiered_retention}'::text[]) x (policy_type)
    LEFT JOIN lakets._policy_registry p USING (policy_type)
    GROUP BY x.policy_type
    UNION ALL
    SELECT 'lakets_database_size_bytes', pg_database_size(current_database()), '{}'
    ORDER BY 1, 3
$$;

COMMENT ON FUNCTION lakets.lakets_metrics() IS
    'Numbers for a monitoring system: tables, chunks, rows, tiering, RollUps, sync, policies and the size of the '
    'database. Of each RollUp: how far its watermark is behind now, how long ago it was refreshed, and how many marks of changes it has yet '
    'to see to.';
