-- Every hour of the morning, also the one in which the attic said nothing.
SELECT hour, count(celsius)
FROM lakets.time_bucket_gapfill('1 hour', '2026-03-02 08:00:00+00', '2026-03-02 10:59:00+00') hour
LEFT JOIN readings ON lakets.time_bucket('1 hour', time) = hour AND sensor = 'attic'
GROUP BY hour ORDER BY hour;
-- => 2026-03-02 08:00:00+00 | 3
-- => 2026-03-02 09:00:00+00 | 0
-- => 2026-03-02 10:00:00+00 | 1
