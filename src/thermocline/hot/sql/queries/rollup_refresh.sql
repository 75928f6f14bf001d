-- One RollUp, how long it took, and why it was not refreshed if it was not.
WITH begun AS MATERIALIZED (
    SELECT pg_catalog.clock_timestamp() AS at, g.id, g.last_refreshed_at + g.refresh_lag > pg_catalog.clock_timestamp() AS early
    FROM lakets._rollup_registry g WHERE g.name = %(name)s
), done AS MATERIALIZED (SELECT lakets._refresh_rollup(b.id, %(now)s) AS refreshed FROM begun b)
SELECT %(name)s::text, d.refreshed, extract(epoch FROM pg_catalog.clock_timestamp() - b.at)::float8 * 1000,
       CASE WHEN d.refreshed THEN '' WHEN b.early THEN 'its refresh_lag is not over' ELSE 'somebody else is at it' END
FROM done d, begun b;
