-- The RollUps that still need the rows of a chunk: not computed up to its end, or with marks in a bucket that has a part in it.
CREATE OR REPLACE FUNCTION thermocline._rollups_behind(p_chronotable_id int, p_from timestamptz, p_to timestamptz)
RETURNS TABLE (name text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT g.name
    FROM lakets._rollup_registry g,
         LATERAL (SELECT min(b.bucket) AS first, max(b.bucket) + g.bucket_interval * 1.5 AS last
                  FROM thermocline._buckets_of_rollup(g.id, ARRAY[p_from, p_to - interval '1 microsecond']) b) w
    WHERE g.source_chronotable_id = p_chronotable_id
      AND (coalesce(g.complete_until, '-infinity') < p_to
           OR EXISTS (SELECT FROM thermocline._marks(g.id) m WHERE m.first_time < w.last AND m.last_time >= w.first))
    ORDER BY g.name
$$;

COMMENT ON FUNCTION thermocline._rollups_behind(int, timestamptz, timestamptz) IS
    'The RollUps that still need the rows of a range.';
