-- The five statements that took the most time. Without the extension pg_stat_statements there is nothing to show.
SELECT calls, round(mean_time_ms) AS mean_ms, query FROM lakets.query_stats(5);
-- => no rows
