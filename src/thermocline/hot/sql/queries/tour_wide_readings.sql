-- How many readings the first two days have in the RollUp, and what it says of them that it does not know.
SELECT coalesce(sum(r.n), 0)::bigint, EXISTS (SELECT FROM lakets._rollup_registry g
                                             WHERE g.name = 'thermocline_demo_two_days' AND NOT isempty(g.incomplete))
FROM public._rollup_thermocline_demo_two_days r
WHERE r.days = date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '3 days';
