-- What a pending unit of work waits for, in the order in which that stands in its way.
CREATE OR REPLACE FUNCTION thermocline._waits_for(p_unit thermocline.work_unit) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(
        (SELECT format('%s is paused', string_agg(s.what, ' and ' ORDER BY s.what)) FROM thermocline.work_stop s
         WHERE s.what IN (p_unit.kind, 'everything') OR (s.what = 'destructive' AND p_unit.destructive)
         HAVING count(*) > 0),
        CASE WHEN p_unit.not_before > now() THEN CASE WHEN p_unit.attempt > 0 THEN 'its next attempt' ELSE 'its time' END END,
        (SELECT format('its window: %s %s-%s UTC', s.window_means, to_char(s.window_start, 'HH24:MI'), to_char(s.window_end, 'HH24:MI'))
         FROM thermocline.schedule s
         WHERE s.id = p_unit.schedule_id AND NOT thermocline._work_window_open(s.window_start, s.window_end, s.window_means, now())),
        (SELECT format('unit %s, of the same table', o.id) FROM thermocline.work_unit o
         WHERE o.lane = p_unit.lane AND o.status = 'claimed' AND o.id <> p_unit.id),
        'a free worker')
    WHERE p_unit.status = 'pending'
$$;

COMMENT ON FUNCTION thermocline._waits_for(thermocline.work_unit) IS 'What a unit of work that is pending waits for.';
