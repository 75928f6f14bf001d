-- The RollUps of a table that are recomputed by themselves.
SELECT g.name FROM lakets._rollup_registry g WHERE g.source_chronotable_id = %(table)s AND g.auto_recompute ORDER BY g.id;
