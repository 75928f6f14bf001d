-- What there is to watch, one row for each time series: its name, the values of its labels, a number.
WITH tables AS (
    SELECT r.id, pg_catalog.format('%I.%I', r.schema_name, r.table_name) AS name FROM lakets._chronotable_registry r
), counted AS (
    SELECT u.kind, u.status, count(*) AS n FROM thermocline.work_unit u WHERE u.status IN ('pending', 'claimed') GROUP BY 1, 2
    UNION ALL
    SELECT u.kind, u.status, count(*) FROM thermocline.work_unit u WHERE u.status IN ('failed', 'dead') AND u.settled_by IS NULL GROUP BY 1, 2
), kinds AS (
    SELECT s.kind FROM thermocline.schedule s UNION SELECT c.kind FROM counted c
)
SELECT 'work_units' AS name, ARRAY[k.kind, x.status] AS labels, coalesce(c.n, 0)::float8 AS value
FROM kinds k CROSS JOIN unnest('{pending, claimed, failed, dead}'::text[]) x (status)
LEFT JOIN counted c ON c.kind = k.kind AND c.status = x.status
UNION ALL
SELECT 'work_oldest_seconds', ARRAY[k.kind], coalesce(extract(epoch FROM pg_catalog.now() - u.first), 0)
FROM kinds k
LEFT JOIN (SELECT u.kind, min(u.not_before) AS first FROM thermocline.work_unit u
           WHERE u.status = 'pending' AND u.status IN ('pending', 'claimed') AND coalesce(u.lease_until, u.not_before) <= pg_catalog.now()
           GROUP BY u.kind) u ON u.kind = k.kind
UNION ALL
SELECT 'work_stopped', ARRAY[s.what], 1 FROM thermocline.work_stop s
UNION ALL
SELECT 'feed_up', '{}', thermocline._feed_runs()::int
UNION ALL
SELECT x.name, '{}', x.value
FROM thermocline.stream s LEFT JOIN lakets.feed_slot() r ON true,
     LATERAL (VALUES ('feed_lag_bytes', greatest(0, pg_catalog.pg_current_wal_lsn() - s.position)),
                     ('feed_lag_seconds', greatest(0, extract(epoch FROM pg_catalog.clock_timestamp() - s.current_at))),
                     ('feed_log_kept_bytes', r.kept_bytes)) x (name, value)
WHERE x.value IS NOT NULL
UNION ALL
SELECT x.name, ARRAY[f.table_name], x.value
FROM lakets.feed_status() f,
     LATERAL (VALUES ('feed_table_lag_bytes', f.lag_bytes::float8), ('feed_table_entries', f.entries),
                     ('feed_table_entries_per_second', f.rows_per_second), ('feed_table_chunks', f.chunks),
                     ('feed_table_chunks_covered', f.covered), ('feed_table_set_aside', (f.status = 'SKIPPED')::int)) x (name, value)
WHERE f.status <> 'TERMINATED' AND x.value IS NOT NULL
UNION ALL
SELECT 'chunks', ARRAY[t.name, x.status], count(m.id)
FROM tables t CROSS JOIN unnest('{active, tiered, dropped}'::text[]) x (status)
LEFT JOIN lakets._chunk_metadata m ON m.chronotable_id = t.id AND m.status = x.status
GROUP BY t.name, x.status
UNION ALL
SELECT 'chunks_refused', ARRAY[t.name, split_part(l.line ->> 'why', ':', 1)], count(*)
FROM tables t
CROSS JOIN LATERAL (SELECT p.lines FROM thermocline.plan p WHERE p.chronotable_id = t.id AND p.kind = 'retention'
                    ORDER BY p.id DESC LIMIT 1) p
CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(p.lines) l (line)
WHERE l.line ->> 'action' = 'stays'
GROUP BY t.name, split_part(l.line ->> 'why', ':', 1)
UNION ALL
SELECT x.name, ARRAY[g.name::text], x.value
FROM lakets._rollup_registry g,
     LATERAL (VALUES ('rollup_staleness_seconds', greatest(0, extract(epoch FROM pg_catalog.now() - g.last_refreshed_at))),
                     ('rollup_dirty_buckets', (
                         SELECT coalesce(sum(ceil(extract(epoch FROM upper(r.dirty) - lower(r.dirty)) / extract(epoch FROM g.bucket_interval))), 0)
                         FROM (SELECT unnest(range_agg(tstzrange(lakets.time_bucket(g.bucket_interval, m.first_time),
                                                                 lakets.time_bucket(g.bucket_interval, m.last_time) + g.bucket_interval)))
                               FROM thermocline._marks(g) m) r (dirty)))) x (name, value)
WHERE x.value IS NOT NULL;
