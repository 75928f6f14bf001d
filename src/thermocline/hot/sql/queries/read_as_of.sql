-- Between which positions the state of a table can be read from its history, the first and the last of them, the moment of the first, and the
-- moment before which everything that was committed is below the last; that is not known of a table which does not stream.
SELECT (s.complete_lsn - '0/0'::pg_lsn)::bigint, (s.committed_lsn - '0/0'::pg_lsn)::bigint - 1, s.complete_at,
       CASE WHEN s.status = 'STREAMING' THEN t.current_at END
FROM thermocline.relation r
JOIN thermocline.synced_table s ON s.chronotable_id = r.id
LEFT JOIN thermocline.stream t ON true
WHERE r.schema_name = %(schema)s AND r.table_name = %(table)s;
