SELECT lakets.create_rollup('hourly',
    'SELECT lakets.time_bucket(''1 hour'', time) AS hour, count(*) AS n FROM readings GROUP BY hour');
-- => 1

-- From here on late rows go unnoticed: neither a refresh nor the real-time view knows of them.
SELECT lakets.disable_rollup_invalidation('hourly');
INSERT INTO readings VALUES ('2026-03-02 08:15:00+00', 'cellar', 9.0);
SELECT lakets.refresh_rollup('hourly');
-- => t
SELECT * FROM _rollup_hourly ORDER BY hour;
-- => 2026-03-02 08:00:00+00 | 5
-- => 2026-03-02 10:00:00+00 | 2
