-- What must not change while buckets of a RollUp are computed elsewhere: its query, its tables, and which of these times have left
-- PostgreSQL, and when.
CREATE OR REPLACE FUNCTION thermocline._recompute_state(p_rollup lakets._rollup_registry, p_times tstzmultirange) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
    SELECT md5(concat_ws('|', p_rollup.template, p_rollup.source_alias, p_rollup.bucket_expression, p_rollup.rollup_oid, p_rollup.source_oid,
        (SELECT string_agg(concat_ws(' ', d.range_start, d.range_end, d.chunk_oid, d.drop_position, d.in_lake), ',' ORDER BY d.range_start)
         FROM thermocline.dropped_range d
         WHERE d.chronotable_id = p_rollup.source_chronotable_id AND tstzrange(d.range_start, d.range_end) && p_times),
        (SELECT string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod), ',' ORDER BY a.attnum)
         FROM pg_attribute a WHERE a.attrelid = p_rollup.source_oid AND a.attnum > 0)))
$$;

COMMENT ON FUNCTION thermocline._recompute_state(lakets._rollup_registry, tstzmultirange) IS
    'A mark of what buckets that are computed elsewhere rest on.';
