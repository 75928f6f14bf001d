-- How many readings the last week has in the RollUp, and whether the RollUp says that it does not have all of something.
SELECT coalesce(sum(r.n), 0)::bigint, EXISTS (SELECT FROM lakets._rollup_registry g
                                             WHERE g.name = 'thermocline_demo_weekly' AND NOT isempty(g.incomplete))
FROM public._rollup_thermocline_demo_weekly r
WHERE r.week = date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '7 days';
