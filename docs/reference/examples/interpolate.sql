-- Nothing was measured at nine. A third of the way from 8:40 to 9:40 the line is a third of the way up.
SELECT lakets.interpolate(NULL, 18, 21, '2026-03-02 08:40:00+00', '2026-03-02 09:00:00+00', '2026-03-02 09:40:00+00');
-- => 19

-- The hours of the cellar, with the one that has no reading.
SELECT hour, lakets.interpolate(warmth, lag(warmth) OVER w, lead(warmth) OVER w, lag(hour) OVER w, hour, lead(hour) OVER w)
FROM lakets.time_bucket_gapfill('1 hour', '2026-03-02 08:00:00+00', '2026-03-02 10:00:00+00') hour
LEFT JOIN (SELECT lakets.time_bucket('1 hour', time) AS hour, avg(celsius) AS warmth
           FROM readings WHERE sensor = 'cellar' GROUP BY 1) measured USING (hour)
WINDOW w AS (ORDER BY hour) ORDER BY hour;
-- => 2026-03-02 08:00:00+00 | 9.25
-- => 2026-03-02 09:00:00+00 | 9.625
-- => 2026-03-02 10:00:00+00 | 10
