-- The chunks that are due to be flagged or dropped, and what a run would do with each, from what is known without comparing.
SELECT v.chunk_name, v.range_start, v.range_end, thermocline._estimated_rows(c.oid, c.reltuples),
       coalesce(pg_catalog.pg_total_relation_size(c.oid), 0), v.state, v.verdict, v.reason, v.message, v.next_step, v.since
FROM thermocline._verdicts(lakets._chronotable_id(%(table)s, %(schema)s), NULL, %(goal)s, %(goal)s = 'drop') v
LEFT JOIN pg_catalog.pg_class c ON c.oid = v.chunk_oid
ORDER BY v.range_start;
