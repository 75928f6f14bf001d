-- What there is to recompute of a RollUp, with the parts of it that are in the lake.
SELECT p.range_start, p.range_end, p.buckets, p.action, p.reason,
       ARRAY(SELECT lower(r) FROM unnest(p.in_lake) r ORDER BY r), ARRAY(SELECT upper(r) FROM unnest(p.in_lake) r ORDER BY r)
FROM thermocline._recompute_plan(%(id)s, %(from)s, %(to)s, %(needed)s) p ORDER BY p.range_start;
