-- Per day: how many readings, and the mean temperature to a thousandth.
SELECT lakets.time_bucket('1 day', ts)::date AS day, count(*) AS readings,
       round(avg(temperature)::numeric, 3)::float8 AS mean
FROM thermocline_demo.readings
GROUP BY 1 ORDER BY 1;
