SELECT lakets.time_bucket('1 hour', time) AS hour, sensor, avg(celsius), count(*)
FROM readings GROUP BY hour, sensor ORDER BY hour, sensor;
-- => 2026-03-02 08:00:00+00 | attic | 18.5 | 3
-- => 2026-03-02 08:00:00+00 | cellar | 9.25 | 2
-- => 2026-03-02 10:00:00+00 | attic | 21.5 | 1
-- => 2026-03-02 10:00:00+00 | cellar | 10 | 1

-- Months count as months, and days can begin where they do in Berlin.
SELECT lakets.time_bucket('1 month', '2026-03-02 23:30:00+00') AS month,
       lakets.time_bucket('1 day', '2026-03-02 23:30:00+00', p_timezone => 'Europe/Berlin') AS day;
-- => 2026-03-01 00:00:00+00 | 2026-03-02 23:00:00+00
