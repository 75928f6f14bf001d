-- What there is to recompute of a RollUp over a ChronoTable from both tiers, from p_from to p_to, widened to whole buckets: those that have
-- rows outside of PostgreSQL; with p_needed only those that are incomplete or marked. What cannot be is listed too, with the reason. A
-- bucket is taken only when it is over and every row of it is in one of the tiers. Nothing is changed.
CREATE OR REPLACE FUNCTION thermocline._recompute_plan(
    p_rollup_id int,
    p_from      timestamptz,
    p_to        timestamptz,
    p_needed    boolean
) RETURNS TABLE (range_start timestamptz, range_end timestamptz, buckets bigint, action text, reason text, in_lake tstzmultirange)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
    v_rollup  lakets._rollup_registry;
    v_synced  boolean;
    v_passed  pg_lsn;
    v_asked   tstzmultirange := '{(,)}';
    v_left    tstzmultirange;
    v_marked  tstzmultirange;
    v_dropped tstzmultirange;
    v_kind    record;
BEGIN
    SELECT * INTO STRICT v_rollup FROM lakets._rollup_registry WHERE id = p_rollup_id;
    PERFORM thermocline._require_rollup_table(v_rollup);
    IF p_to <= p_from OR NOT isfinite(p_from) OR NOT isfinite(p_to) THEN
        RAISE EXCEPTION 'cannot recompute % from % to %', v_rollup.name, p_from, p_to USING HINT = 'Give two moments, the earlier one first.';
    END IF;
    SELECT s.lake_table IS NOT NULL, s.committed_lsn INTO v_synced, v_passed
    FROM thermocline.synced_table s WHERE s.chronotable_id = v_rollup.source_chronotable_id;
    IF p_from IS NOT NULL THEN
        v_asked := v_asked * tstzmultirange(tstzrange(
            (SELECT b.bucket FROM thermocline._buckets_of_rollup(v_rollup, ARRAY[p_from]) b), NULL));
    END IF;
    IF p_to IS NOT NULL THEN
        v_asked := v_asked * tstzmultirange(tstzrange(NULL, upper(thermocline._buckets_over(
            v_rollup, tstzmultirange(tstzrange(p_to - interval '1 microsecond', p_to))))));
    END IF;
    SELECT coalesce(range_agg(tstzrange(d.range_start, d.range_end)), '{}') INTO v_dropped
    FROM thermocline.dropped_range d WHERE d.chronotable_id = v_rollup.source_chronotable_id;
    v_left := thermocline._frozen_buckets(v_rollup) + v_rollup.incomplete;
    SELECT thermocline._buckets_over(v_rollup, coalesce(range_agg(tstzrange(m.first_time, m.last_time + interval '1 microsecond')), '{}')) INTO v_marked
    FROM lakets._rollup_recompute m WHERE m.rollup_id = p_rollup_id;
    v_left := v_left * v_asked;
    IF p_needed THEN
        v_left := v_left * (v_marked + v_rollup.incomplete);
    END IF;
    FOR v_kind IN
        SELECT * FROM (VALUES
            (1, 'leave', 'rows_lost', (SELECT range_agg(tstzrange(d.range_start, d.range_end)) FROM thermocline.dropped_range d
                             WHERE d.chronotable_id = v_rollup.source_chronotable_id AND NOT d.in_lake)),
            (2, 'leave', 'chunk_hidden', (SELECT range_agg(tstzrange(h.range_start, h.range_end))
                                FROM thermocline._hidden_chunks(v_rollup.source_chronotable_id) h)),
            (3, 'leave', 'not_synced', CASE WHEN v_synced IS NOT TRUE THEN v_dropped END),
            (4, 'leave', 'feed_behind', (SELECT range_agg(tstzrange(d.range_start, d.range_end)) FROM thermocline.dropped_range d
                               WHERE d.chronotable_id = v_rollup.source_chronotable_id AND d.receipt_position IS NULL
                                 AND (v_passed > d.drop_position) IS NOT TRUE)),
            (5, 'leave', 'not_over', tstzmultirange(tstzrange(v_rollup.complete_until, NULL))),
            (6, 'recompute', 'incomplete', v_rollup.incomplete),
            (7, 'recompute', 'changed', v_marked),
            (8, 'recompute', 'frozen', '{(,)}'::tstzmultirange)) k (at, action, reason, times)
        ORDER BY k.at
    LOOP
        RETURN QUERY
        SELECT lower(r), upper(r), (SELECT count(*) FROM thermocline._listed_buckets(v_rollup, tstzmultirange(r))),
               v_kind.action, v_kind.reason, v_dropped * tstzmultirange(r)
        FROM unnest(v_left * CASE WHEN v_kind.at < 5 THEN thermocline._buckets_over(v_rollup, coalesce(v_kind.times, '{}'))
                                  ELSE v_kind.times END) r;
        v_left := v_left - CASE WHEN v_kind.at < 5 THEN thermocline._buckets_over(v_rollup, coalesce(v_kind.times, '{}'))
                                ELSE v_kind.times END;
    END LOOP;
END
$$;

COMMENT ON FUNCTION thermocline._recompute_plan(int, timestamptz, timestamptz, boolean) IS
    'The buckets of a RollUp that can be recomputed from both tiers, and those that cannot, with the reason.';
