-- Tables that have RollUps.
SELECT DISTINCT g.source_chronotable_id FROM lakets._rollup_registry g WHERE g.source_chronotable_id IS NOT NULL ORDER BY 1;
