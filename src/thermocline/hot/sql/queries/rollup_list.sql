-- Every RollUp, dependencies first, with what it is made from and how much waits.
SELECT g.name, coalesce(t.schema_name || '.' || t.table_name, s.rollup_table), g.bucket_interval::text, g.watermark,
       g.last_refreshed_at, g.refresh_lag::text, (SELECT count(*) FROM thermocline._marks(g))::int,
       (SELECT count(*) FROM unnest(g.incomplete))::int, g.tracked
FROM unnest(lakets._build_rollup_dag()) WITH ORDINALITY d (id, n)
JOIN lakets._rollup_registry g ON g.id = d.id
LEFT JOIN lakets._chronotable_registry t ON t.id = g.source_chronotable_id
LEFT JOIN lakets._rollup_registry s ON s.id = g.source_rollup_id
ORDER BY d.n;
