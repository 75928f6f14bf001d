-- Buckets that have lost rows are recomputed from both tiers by a node, without being asked for.
SELECT lakets.create_rollup('hourly',
    'SELECT lakets.time_bucket(''1 hour'', time) AS hour, count(*) AS n FROM readings GROUP BY hour');
-- => 1
SELECT lakets.set_rollup_recompute('hourly', true);
SELECT name, auto_recompute FROM lakets._rollup_registry;
-- => hourly | t

-- One that is made from another follows that one.
SELECT lakets.create_rollup('daily',
    'SELECT lakets.time_bucket(''1 day'', hour) AS day, sum(n) AS n FROM _rollup_hourly GROUP BY day', '1 day');
-- => 2
SELECT lakets.set_rollup_recompute('daily', true);
-- error: daily is made from the RollUp hourly, and follows when that one is recomputed
