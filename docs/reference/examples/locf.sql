-- The hours of the cellar; the one without a reading takes the value of the hour before.
SELECT hour, lakets.locf(warmth, lag(warmth) OVER (ORDER BY hour))
FROM lakets.time_bucket_gapfill('1 hour', '2026-03-02 08:00:00+00', '2026-03-02 10:00:00+00') hour
LEFT JOIN (SELECT lakets.time_bucket('1 hour', time) AS hour, avg(celsius) AS warmth
           FROM readings WHERE sensor = 'cellar' GROUP BY 1) measured USING (hour)
ORDER BY hour;
-- => 2026-03-02 08:00:00+00 | 9.25
-- => 2026-03-02 09:00:00+00 | 9.25
-- => 2026-03-02 10:00:00+00 | 10
