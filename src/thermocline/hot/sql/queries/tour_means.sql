-- What the RollUps have stored of the sensor and the time of the late reading, what the real-time view shows, and how much there is.
WITH late AS (SELECT date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '14 hours' AS hour)
SELECT 'hourly', h.hour, h.total / h.n, (SELECT v.total / v.n FROM public._rollup_rt_thermocline_demo_hourly v
                                         WHERE v.hour = h.hour AND v.sensor = h.sensor),
       (SELECT count(*) FROM public._rollup_thermocline_demo_hourly)
FROM late JOIN public._rollup_thermocline_demo_hourly h ON h.hour = late.hour AND h.sensor = 7
UNION ALL
SELECT 'daily', d.day, d.total / d.n::float8, NULL, (SELECT count(*) FROM public._rollup_thermocline_demo_daily)
FROM late JOIN public._rollup_thermocline_demo_daily d ON d.day = late.hour - interval '10 hours' AND d.sensor = 7
