-- The longest time that can pass between two runs of a schedule, its window included. A cron line is not played through but read by
-- its fields, and what is said is never too short: an hour if every hour has a run, then a day, a week, two months, a year, and
-- ten years for what may come on a 29th of February or on a fifth Monday only.
CREATE OR REPLACE FUNCTION thermocline._longest_gap(p_schedule thermocline.schedule) RETURNS interval
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(p_schedule.every, CASE
               WHEN weekday <> '*' AND (day ~ '^\*.' OR month <> '*' OR weekday !~* '^((sun|mon|tue|wed|thu|fri|sat|[0-7])[,-]?)+$')
                   THEN interval '3653 days'  -- both have to fit, or it is a weekday of a month
               WHEN weekday <> '*' THEN interval '7 days'  -- beside a day of the month: one of both has to
               WHEN month <> '*' THEN CASE WHEN day ~ '^(\*|[1-9]|1\d|2[0-8])$' THEN interval '366 days' ELSE interval '3653 days' END
               WHEN day <> '*' THEN interval '62 days'
               WHEN hour <> '*' THEN interval '1 day'
               ELSE interval '1 hour' END)
           + CASE p_schedule.window_means WHEN 'runs' THEN interval '1 day' - open_or_not WHEN 'pauses' THEN open_or_not
                                          ELSE interval '0' END
    FROM (SELECT split_part(p_schedule.cron, ' ', 2), split_part(p_schedule.cron, ' ', 3), split_part(p_schedule.cron, ' ', 4),
                 split_part(p_schedule.cron, ' ', 5),
                 p_schedule.window_end - p_schedule.window_start
                 + CASE WHEN p_schedule.window_end < p_schedule.window_start THEN interval '1 day' ELSE interval '0' END
         ) told (hour, day, month, weekday, open_or_not)
$$;

COMMENT ON FUNCTION thermocline._longest_gap(thermocline.schedule) IS
    'The longest time between two runs of a schedule, or more.';
