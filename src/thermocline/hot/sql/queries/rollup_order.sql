-- The RollUps that a refresh of one, or of all, takes in, dependencies first; each with those that it depends on.
SELECT g.name, ARRAY(SELECT d.name FROM lakets._rollup_registry d WHERE d.id = ANY (g.depends_on) OR d.id = g.source_rollup_id)
FROM unnest(lakets._build_rollup_dag(CASE WHEN %(name)s::text IS NOT NULL THEN ARRAY[thermocline._rollup_id(%(name)s)] END))
     WITH ORDINALITY d (id, n)
JOIN lakets._rollup_registry g ON g.id = d.id
ORDER BY d.n;
