-- 600 requests in a minute are 10 in a second.
SELECT lakets.rate(1600, 1000, '2026-03-02 08:01:00+00', '2026-03-02 08:00:00+00');
-- => 10

-- Requests per hour, from one noon to the next.
SELECT served, round((3600 * lakets.rate(served, lag(served) OVER w, time, lag(time) OVER w))::numeric, 2) AS per_hour
FROM requests WHERE host = 'web-1'
WINDOW w AS (ORDER BY time) ORDER BY time;
-- => 100 | NULL
-- => 250 | 6.25
-- => 400 | 6.25
-- => 60 | 2.50
-- => 90 | 1.25
-- => 190 | 4.17
