-- Drops every RollUp that is made from a ChronoTable, those that are made from others first.
CREATE OR REPLACE FUNCTION thermocline._drop_rollups_of(p_chronotable_id int) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT lakets.drop_rollup(g.name)
    FROM unnest(lakets._build_rollup_dag()) WITH ORDINALITY o (id, n)
    JOIN lakets._rollup_registry g ON g.id = o.id
    WHERE g.source_chronotable_id = p_chronotable_id OR g.source_rollup_id IS NOT NULL AND EXISTS (
        WITH RECURSIVE up AS (
            SELECT g.source_chronotable_id AS root, g.source_rollup_id AS next
            UNION ALL
            SELECT s.source_chronotable_id, s.source_rollup_id FROM up JOIN lakets._rollup_registry s ON s.id = up.next
        ) SELECT FROM up WHERE up.root = p_chronotable_id)
    ORDER BY o.n DESC
$$;

COMMENT ON FUNCTION thermocline._drop_rollups_of(int) IS 'Drops all RollUps that are made from a ChronoTable.';
