-- Every schedule: those for all tables first, then those of single ones. next_at is when the work is due again, or NULL if it is not
-- known: when it has never run, or its rule was changed and no node has looked at it since.
CREATE OR REPLACE FUNCTION lakets.schedule_show() RETURNS TABLE (
    kind         text,
    schema_name  text,
    table_name   text,
    every        interval,
    cron         text,
    pace_window  text,
    enabled      boolean,
    last_at      timestamptz,
    next_at      timestamptz,
    problem      text
)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.kind, t.schema_name, t.table_name, s.every, s.cron,
           s.window_means || ' ' || to_char(s.window_start, 'HH24:MI') || '-' || to_char(s.window_end, 'HH24:MI'),
           s.enabled, r.last_at, r.next_at, s.problem
    FROM thermocline.schedule s
    LEFT JOIN lakets._chronotable_registry t ON t.id = s.chronotable_id
    LEFT JOIN LATERAL (
        SELECT max(r.last_at) AS last_at,
               min(r.next_at) FILTER (WHERE r.rule = coalesce('cron ' || s.cron, 'every ' || round(extract(epoch FROM s.every), 6))) AS next_at
        FROM thermocline.schedule_run r
        WHERE r.kind = s.kind
          AND (r.chronotable_id = s.chronotable_id
               OR s.chronotable_id IS NULL AND NOT EXISTS (SELECT FROM thermocline.schedule o
                                                           WHERE o.kind = s.kind AND o.chronotable_id = r.chronotable_id))
    ) r ON true
    ORDER BY s.chronotable_id IS NOT NULL, s.kind, t.schema_name, t.table_name
$$;

COMMENT ON FUNCTION lakets.schedule_show() IS
    'When each kind of background work is due, for all tables and for those with a schedule of their own.';
