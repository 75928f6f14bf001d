-- The rows of a table up to p_until are about to leave, or have left: from now on and for ever its RollUps show what they have
-- computed of every bucket that has a part in them.
CREATE OR REPLACE FUNCTION thermocline._serve_from_rollups(p_chronotable_id int, p_until timestamptz) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE lakets._rollup_registry g
    SET watermark = greatest(g.watermark, (
        SELECT n.bucket
        FROM thermocline._buckets_of_rollup(g.id, ARRAY[p_until - interval '1 microsecond']) b,
             thermocline._buckets_of_rollup(g.id, ARRAY[b.bucket + g.bucket_interval * 1.5]) n))
    WHERE g.source_chronotable_id = p_chronotable_id
$$;

COMMENT ON FUNCTION thermocline._serve_from_rollups(int, timestamptz) IS
    'Lets RollUps show what they have computed of a range, not its rows.';
