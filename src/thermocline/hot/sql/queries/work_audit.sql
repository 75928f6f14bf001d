-- What was done that cannot be taken back, the newest first.
SELECT a.id, a.at, a.who, a.action, a.object, a.range_start, a.range_end, a.row_count, a.bytes, a.forced, a.reason, a.evidence
FROM thermocline.audit a
WHERE (%(action)s::text IS NULL OR a.action = %(action)s) AND (%(since)s::timestamptz IS NULL OR a.at >= %(since)s)
  AND (%(table)s::text IS NULL
       OR a.chronotable_id IN (SELECT r.id FROM lakets._chronotable_registry r WHERE r.table_name = %(table)s AND r.schema_name = %(schema)s)
       OR a.object = pg_catalog.format('%%I.%%I', %(schema)s::text, %(table)s::text))
ORDER BY a.id DESC
LIMIT %(most)s;
