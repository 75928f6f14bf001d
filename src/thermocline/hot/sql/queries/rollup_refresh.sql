-- One RollUp, and how long it took.
WITH begun AS MATERIALIZED (SELECT pg_catalog.clock_timestamp() AS at),
     done AS MATERIALIZED (SELECT lakets.refresh_rollup(%(name)s) AS refreshed FROM begun)
SELECT %(name)s::text, d.refreshed, extract(epoch FROM pg_catalog.clock_timestamp() - b.at)::float8 * 1000
FROM done d, begun b;
