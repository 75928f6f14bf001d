-- Up to where the lake has all of the ranges of a trap that are not in it; no position: not known.
SELECT d.range_start, d.range_end, (d.settled_position - '0/0'::pg_lsn)::bigint
FROM thermocline.dropped_range d WHERE d.trap_oid = %(trap)s::oid ORDER BY d.range_start;
