-- What is visible now, and what buckets that are computed from now on rest on.
SELECT pg_catalog.pg_current_snapshot()::text, thermocline._recompute_state(g, %(times)s::tstzmultirange)
FROM lakets._rollup_registry g WHERE g.id = %(id)s;
