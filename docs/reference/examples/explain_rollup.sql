SELECT lakets.create_rollup('hourly',
    'SELECT lakets.time_bucket(''1 hour'', time) AS hour, sensor, sum(celsius) AS total, count(celsius) AS n
     FROM readings GROUP BY hour, sensor');
-- => 1

-- Two rows come late. Why it is dirty, and how many keys of which buckets the next refresh computes.
INSERT INTO readings VALUES ('2026-03-02 08:15:00+00', 'cellar', 9.0), ('2026-03-02 08:16:00+00', 'attic', 9.0);
SELECT item, reason, range_start, range_end, how_many FROM lakets.explain_rollup('hourly') WHERE item <> 'newest';
-- => marks | late_write | 2026-03-02 08:15:00+00 | 2026-03-02 08:16:00+00 | 2
-- => keys | computed anew, these keys of their buckets | 2026-03-02 08:00:00+00 | 2026-03-02 09:00:00+00 | 2
