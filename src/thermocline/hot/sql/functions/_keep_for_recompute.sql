-- Marks in buckets that have lost rows are no work for a refresh, which is about to forget them: they are kept for a recompute from both
-- tiers.
CREATE OR REPLACE FUNCTION thermocline._keep_for_recompute(p_rollup lakets._rollup_registry) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_left tstzmultirange;
BEGIN
    SELECT range_agg(tstzrange(d.range_start, d.range_end)) INTO v_left
    FROM thermocline.dropped_range d WHERE d.chronotable_id = p_rollup.source_chronotable_id;
    IF v_left IS NULL THEN
        RETURN;
    END IF;
    v_left := thermocline._buckets_over(p_rollup, v_left);
    INSERT INTO lakets._rollup_recompute (rollup_id, first_time, last_time, reason, marked_at)
    SELECT p_rollup.id, lower(r), upper(r) - interval '1 microsecond', m.reason, m.marked_at
    FROM (SELECT l.reason, min(l.marked_at) AS marked_at,
                 thermocline._buckets_over(p_rollup, range_agg(tstzrange(l.first_time, l.last_time + interval '1 microsecond'))) AS times
          FROM thermocline._marks(p_rollup) l
          WHERE l.reason <> 'not_whole' AND tstzrange(l.first_time, l.last_time, '[]') && v_left
          GROUP BY l.reason) m,
         unnest(m.times * v_left) r;
END
$$;

COMMENT ON FUNCTION thermocline._keep_for_recompute(lakets._rollup_registry) IS
    'Keeps the marks of buckets that a refresh cannot compute any more.';
