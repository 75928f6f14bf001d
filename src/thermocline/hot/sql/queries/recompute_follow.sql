-- The RollUps that are made from one, and what of them follows when these times of it are computed anew, in the order in which they do.
WITH RECURSIVE follow AS (
    SELECT g.id, s.name AS source, 1 AS depth,
           thermocline._buckets_over(g, %(times)s::tstzmultirange) - thermocline._buckets_over(g, s.incomplete - %(times)s::tstzmultirange) AS times
    FROM lakets._rollup_registry g JOIN lakets._rollup_registry s ON s.id = g.source_rollup_id WHERE s.id = %(id)s
    UNION ALL
    SELECT g.id, s.name, f.depth + 1,
           thermocline._buckets_over(g, f.times) - thermocline._buckets_over(g, s.incomplete - f.times)
    FROM follow f JOIN lakets._rollup_registry s ON s.id = f.id JOIN lakets._rollup_registry g ON g.source_rollup_id = f.id
)
SELECT g.name, f.source, lower(r), upper(r), (SELECT count(*) FROM thermocline._listed_buckets(g, tstzmultirange(r)))
FROM follow f JOIN lakets._rollup_registry g ON g.id = f.id, unnest(f.times) r
ORDER BY f.depth, g.id, r;
