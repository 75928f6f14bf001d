-- Marks every bucket that a RollUp has below its watermark.
CREATE OR REPLACE FUNCTION thermocline._mark_everything(p_rollup_id int) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
    v_rollup lakets._rollup_registry;
BEGIN
    SELECT * INTO STRICT v_rollup FROM lakets._rollup_registry WHERE id = p_rollup_id;
    IF isfinite(v_rollup.watermark) THEN
        EXECUTE format(
            'INSERT INTO lakets._rollup_invalidation_log (rollup_id, bucket_start, first_time, last_time, reason)'
            ' SELECT $1, x.first, x.first, $2, ''was_disabled'' FROM (SELECT least('
            '  (SELECT min(%I)::timestamptz FROM %s), (SELECT min(%I)::timestamptz FROM %s)) AS first) x WHERE x.first < $2',
            v_rollup.bucket_column, v_rollup.rollup_oid::regclass, v_rollup.source_time_column, v_rollup.source_oid::regclass)
        USING p_rollup_id, v_rollup.watermark;
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._mark_everything(int) IS 'Marks all that a RollUp has materialised.';
