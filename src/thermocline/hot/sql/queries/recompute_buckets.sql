-- The buckets of a RollUp within these times, in microseconds since 1970.
SELECT (extract(epoch FROM b.bucket) * 1000000)::bigint, (extract(epoch FROM b.bucket_end) * 1000000)::bigint
FROM lakets._rollup_registry g, thermocline._listed_buckets(g, %(times)s::tstzmultirange) b WHERE g.id = %(id)s ORDER BY 1;
