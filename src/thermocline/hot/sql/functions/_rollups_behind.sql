-- The RollUps that still need the rows of a chunk: not computed up to its end, or with marks in its range.
CREATE OR REPLACE FUNCTION thermocline._rollups_behind(p_chronotable_id int, p_from timestamptz, p_to timestamptz)
RETURNS TABLE (name text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT g.name FROM lakets._rollup_registry g
    WHERE g.source_chronotable_id = p_chronotable_id
      AND (coalesce(g.complete_until, '-infinity') < p_to
           OR EXISTS (SELECT FROM thermocline._marks(g.id) m WHERE m.first_time < p_to AND m.last_time >= p_from))
    ORDER BY g.name
$$;

COMMENT ON FUNCTION thermocline._rollups_behind(int, timestamptz, timestamptz) IS
    'The RollUps that still need the rows of a range.';
