-- Rows and bytes of the chunks that a unit has dropped since it was claimed, as the audit has them.
SELECT coalesce(sum(a.row_count), 0)::bigint, coalesce(sum(a.bytes), 0)::bigint
FROM thermocline.audit a
WHERE a.action = 'drop_chunk' AND a.chronotable_id = %(table)s AND a.object = ANY (%(chunks)s)
  AND a.at >= (SELECT u.claimed_at FROM thermocline.work_unit u WHERE u.id = %(unit)s);
