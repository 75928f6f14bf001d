-- Between which positions the state of a table can be read from its history, the first and the last of them, the moment of the first, and the
-- moment before which everything that was committed is below the last; that is not known of a table which does not stream. Nothing is known while
-- a mirror is doubted, or a part is not logged: what was written meanwhile reaches the history with the copy that comes next.
SELECT CASE WHEN NOT EXISTS (SELECT FROM thermocline.mirror_doubt d
                             JOIN thermocline.resident_part p ON p.id = d.chronotable_id AND d.times && tstzrange(p.range_start, p.range_end)
                             WHERE d.chronotable_id = s.chronotable_id)
             AND NOT EXISTS (SELECT FROM thermocline.resident_part p JOIN pg_catalog.pg_class c ON c.oid = p.part_oid
                             WHERE p.id = s.chronotable_id AND c.relpersistence <> 'p')
            THEN (s.complete_lsn - '0/0'::pg_lsn)::bigint END,
       (s.committed_lsn - '0/0'::pg_lsn)::bigint - 1, s.complete_at,
       CASE WHEN s.status = 'STREAMING' THEN s.current_at END
FROM thermocline.relation r
JOIN thermocline.synced_table s ON s.chronotable_id = r.id
WHERE r.schema_name = %(schema)s AND r.table_name = %(table)s;
