-- Ranges whose drop the feed has not passed yet are read at the position of their receipt.
SELECT d.range_start, d.range_end, (d.receipt_position - '0/0'::pg_lsn)::bigint
FROM thermocline.dropped_range d JOIN thermocline.synced_table s ON s.chronotable_id = d.chronotable_id
WHERE d.chronotable_id = %(table)s AND d.receipt_position IS NOT NULL
  AND (s.committed_lsn IS NULL OR s.committed_lsn <= d.drop_position);
