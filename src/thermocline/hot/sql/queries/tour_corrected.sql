-- What the RollUps have stored of the sensor that is corrected: the mean of the day that came back, and of its week.
WITH today AS (SELECT date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' AS start)
SELECT (SELECT d.total / d.n::float8 FROM public._rollup_thermocline_demo_daily d
        WHERE d.day = today.start - interval '3 days' AND d.sensor = 7),
       (SELECT w.total / w.n FROM public._rollup_thermocline_demo_weekly w
        WHERE w.week = today.start - interval '7 days' AND w.sensor = 7)
FROM today;
