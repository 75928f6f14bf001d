-- It is on from the making of a RollUp.
SELECT lakets.create_rollup('hourly',
    'SELECT lakets.time_bucket(''1 hour'', time) AS hour, count(*) AS n FROM readings GROUP BY hour');
-- => 1
SELECT lakets.enable_rollup_invalidation('hourly');
-- notice: writes to the past mark the buckets of hourly already

-- After a pause all that the RollUp has is computed anew, since nobody knows what was written meanwhile.
SELECT lakets.disable_rollup_invalidation('hourly');
INSERT INTO readings VALUES ('2026-03-02 08:15:00+00', 'cellar', 9.0);
SELECT lakets.enable_rollup_invalidation('hourly');
SELECT lakets.refresh_rollup('hourly');
-- => t
SELECT * FROM _rollup_hourly ORDER BY hour;
-- => 2026-03-02 08:00:00+00 | 6
-- => 2026-03-02 10:00:00+00 | 2
