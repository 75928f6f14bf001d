-- The traps whose rows count beside what the lake has of their ranges, and the file that each had by this snapshot.
SELECT t.trap_oid::bigint AS oid, pg_catalog.format('%%I.%%I', n.nspname, c.relname) AS name, t.range_start AS start, t.range_end AS "end",
       c.relfilenode::bigint AS file
FROM thermocline.trap t
JOIN pg_catalog.pg_class c ON c.oid = t.trap_oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE t.chronotable_id = %(table)s
  AND EXISTS (SELECT FROM thermocline.dropped_range d WHERE d.trap_oid = t.trap_oid AND d.settled_position IS NOT NULL)
ORDER BY t.range_start;
