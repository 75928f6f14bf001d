-- Up to where the lake has what is proven of a range that takes late rows, and how often its trap was lost.
SELECT (d.settled_position - '0/0'::pg_lsn)::bigint, d.traps_lost
FROM thermocline.dropped_range d WHERE d.chronotable_id = %(table)s AND d.range_start = %(start)s;
