-- One RollUp, and why it was not refreshed if it was not.
WITH asked AS MATERIALIZED (
    SELECT g.id, g.last_refreshed_at + g.refresh_lag > pg_catalog.clock_timestamp() AS early
    FROM lakets._rollup_registry g WHERE g.name = %(name)s
), done AS MATERIALIZED (SELECT lakets._refresh_rollup(a.id, %(now)s) AS refreshed, a.early FROM asked a)
SELECT d.refreshed,
       CASE WHEN d.refreshed THEN '' WHEN d.early THEN 'its refresh_lag is not over' ELSE 'somebody else is at it' END
FROM done d;
