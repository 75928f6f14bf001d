-- Replaces buckets of a RollUp by rows that were computed from both tiers, which p_query selects; buckets of p_times that it has no rows
-- for lose theirs. They are no longer incomplete, and stay frozen. What was written by transactions that p_seen does not show stays
-- marked. The RollUps that are made from it follow at once. False, and nothing done, when what they rest on is no longer p_state.
CREATE OR REPLACE FUNCTION thermocline._replace_buckets(
    p_rollup_id int,
    p_state     text,
    p_seen      pg_snapshot,
    p_times     tstzmultirange,
    p_query     text,
    p_reason    text
) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET jit = off
AS $$
DECLARE
    v_rollup lakets._rollup_registry;
    v_bucket regtype;
    v_gone   bigint;
    v_rows   bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('thermocline rollup ' || p_rollup_id, 0));
    SELECT * INTO v_rollup FROM lakets._rollup_registry WHERE id = p_rollup_id;
    IF NOT FOUND OR thermocline._recompute_state(v_rollup, p_times) <> p_state
       OR NOT p_times <@ (thermocline._frozen_buckets(v_rollup) + v_rollup.incomplete) THEN
        RETURN false;
    END IF;
    PERFORM thermocline._require_rollup_table(v_rollup), thermocline._require_owner_of(v_rollup.rollup_oid);
    SELECT atttypid INTO STRICT v_bucket FROM pg_attribute
    WHERE attrelid = v_rollup.rollup_oid AND attname = v_rollup.bucket_column;
    EXECUTE format('DELETE FROM %1$s t USING unnest($1) d (r) WHERE t.%2$I >= lower(d.r)::%3$s AND t.%2$I < upper(d.r)::%3$s',
                   v_rollup.rollup_oid::regclass, v_rollup.bucket_column, v_bucket) USING p_times;
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    EXECUTE format('INSERT INTO %s %s', v_rollup.rollup_oid::regclass, p_query);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    UPDATE lakets._rollup_registry
    SET incomplete = incomplete - p_times, watermark = greatest(watermark, upper(p_times))
    WHERE id = p_rollup_id;
    -- Of a mark that reaches further, the rest stays.
    WITH seen AS (
        DELETE FROM lakets._rollup_recompute m
        WHERE m.rollup_id = p_rollup_id AND pg_visible_in_snapshot(m.xid, p_seen)
          AND tstzrange(m.first_time, m.last_time, '[]') && p_times
        RETURNING m.*
    )
    INSERT INTO lakets._rollup_recompute (rollup_id, first_time, last_time, reason, marked_at, xid)
    SELECT s.rollup_id, lower(r), upper(r) - interval '1 microsecond', s.reason, s.marked_at, s.xid
    FROM seen s, unnest(thermocline._buckets_over(v_rollup, tstzmultirange(tstzrange(s.first_time, s.last_time + interval '1 microsecond'))) - p_times) r;
    PERFORM thermocline._recompute_dependents(p_rollup_id, p_times);
    INSERT INTO thermocline.audit (action, object, chronotable_id, range_start, range_end, row_count, reason, evidence)
    VALUES ('recompute_rollup', v_rollup.name, v_rollup.source_chronotable_id, lower(p_times), upper(p_times), v_rows, p_reason,
            jsonb_build_object('times', p_times, 'rows_before', v_gone, 'seen', p_seen));
    RETURN true;
END
$$;

COMMENT ON FUNCTION thermocline._replace_buckets(int, text, pg_snapshot, tstzmultirange, text, text) IS
    'Replaces buckets of a RollUp by what was computed from both tiers; false if something has changed meanwhile.';
