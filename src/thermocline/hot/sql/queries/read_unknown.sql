-- Of a table that streams: between which positions its state is not known, and between which moments. The last one has no end as long as a chunk is to be copied.
SELECT (u.after_lsn - '0/0'::pg_lsn)::bigint, u.after_at, (u.until_lsn - '0/0'::pg_lsn)::bigint, u.until_at
FROM thermocline.relation r
JOIN thermocline.synced_table s ON s.chronotable_id = r.id,
LATERAL (
    SELECT k.after_lsn, k.after_at, k.until_lsn, k.until_at FROM thermocline.unknown_span k WHERE k.chronotable_id = s.chronotable_id
    UNION ALL
    SELECT greatest(s.sound_lsn, s.complete_lsn), greatest(s.sound_at, s.complete_at), NULL, NULL
    WHERE s.status = 'STREAMING' AND EXISTS (SELECT FROM thermocline.uncovered_part p WHERE p.id = s.chronotable_id)
) u
WHERE r.schema_name = %(schema)s AND r.table_name = %(table)s
ORDER BY u.after_lsn;
