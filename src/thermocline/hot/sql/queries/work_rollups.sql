-- The RollUps that have their rows from a table, directly or through others, after all that they depend on; and whether each is due.
WITH RECURSIVE family AS (
    SELECT g.id FROM lakets._rollup_registry g WHERE g.source_chronotable_id = %(table)s
    UNION
    SELECT g.id FROM family f JOIN lakets._rollup_registry g ON f.id = ANY (g.depends_on) OR g.source_rollup_id = f.id
)
SELECT g.name, ARRAY(SELECT d.name FROM lakets._rollup_registry d WHERE d.id = ANY (g.depends_on) OR d.id = g.source_rollup_id),
       coalesce(g.last_refreshed_at + g.refresh_lag <= pg_catalog.clock_timestamp(), true), g.refresh_lag::text
FROM unnest(lakets._build_rollup_dag((SELECT coalesce(array_agg(f.id), '{}') FROM family f))) WITH ORDINALITY o (id, place)
JOIN lakets._rollup_registry g ON g.id = o.id
ORDER BY o.place;
