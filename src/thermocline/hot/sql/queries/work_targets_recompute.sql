-- Tables with RollUps that are recomputed by themselves and have something that needs it.
SELECT DISTINCT g.source_chronotable_id FROM lakets._rollup_registry g
WHERE g.source_chronotable_id IS NOT NULL AND g.auto_recompute
  AND (NOT isempty(g.incomplete) OR EXISTS (SELECT FROM lakets._rollup_recompute m WHERE m.rollup_id = g.id))
ORDER BY 1;
