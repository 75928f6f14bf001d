-- The RollUp over a ChronoTable that a RollUp is made from, in the end, and the times of it that are meant, widened to whole buckets on the way.
WITH RECURSIVE up AS (
    SELECT g.id, g.source_rollup_id, %(from)s::timestamptz AS lo, %(to)s::timestamptz AS hi
    FROM lakets._rollup_registry g WHERE g.id = thermocline._rollup_id(%(name)s)
    UNION ALL
    SELECT s.id, s.source_rollup_id,
           CASE WHEN u.lo IS NOT NULL THEN lower(thermocline._buckets_over(g, tstzmultirange(tstzrange(u.lo, u.lo + interval '1 microsecond')))) END,
           CASE WHEN u.hi IS NOT NULL THEN upper(thermocline._buckets_over(g, tstzmultirange(tstzrange(u.hi - interval '1 microsecond', u.hi)))) END
    FROM up u JOIN lakets._rollup_registry g ON g.id = u.id JOIN lakets._rollup_registry s ON s.id = u.source_rollup_id
)
SELECT u.id, g.name, u.lo, u.hi FROM up u JOIN lakets._rollup_registry g ON g.id = u.id WHERE u.source_rollup_id IS NULL;
