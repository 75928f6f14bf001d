-- RollUps over a RollUp: what was computed anew is marked for each of them. Mostly there are none.
CREATE OR REPLACE FUNCTION thermocline._mark_dependents(p_rollup_id int, p_ranges tstzmultirange, p_newest timestamptz)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM lakets._rollup_registry g WHERE g.source_rollup_id = p_rollup_id) THEN
        RETURN;
    END IF;
    INSERT INTO lakets._rollup_invalidation_log (rollup_id, bucket_start, first_time, last_time, reason)
    SELECT g.id, CASE WHEN g.bucket_expression ~ '^lakets\.time_bucket\(''[^'']+''::interval, [^,()]+\)$'
                      THEN lakets.time_bucket(g.bucket_interval, x.first) END,  -- as a late write does
           x.first, x.last, 'source_refreshed'
    FROM lakets._rollup_registry g, unnest(p_ranges) r,
         LATERAL (SELECT coalesce(nullif(lower(r), '-infinity'), g.created_at - interval '100 years') AS first,
                         coalesce(upper(r) - interval '1 microsecond', greatest(p_newest, now())) AS last) x
    WHERE g.source_rollup_id = p_rollup_id AND x.first < g.watermark AND x.last >= x.first;
END
$$;

COMMENT ON FUNCTION thermocline._mark_dependents(int, tstzmultirange, timestamptz) IS
    'Marks what a refresh has computed anew for the RollUps that are made from it.';
