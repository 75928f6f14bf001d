-- Ranges that are not read from the lake as it is now. One whose drop the feed has not passed yet is read at the position of its receipt.
-- One that takes late rows is read at the position up to which they are settled: later ones are in its trap, as long as that is there.
SELECT c.range_start, c.range_end, (c.position - '0/0'::pg_lsn)::bigint
FROM (SELECT d.range_start, d.range_end,
             CASE WHEN t.settled > d.drop_position THEN t.settled
                  WHEN d.receipt_position IS NOT NULL AND (s.committed_lsn IS NULL OR s.committed_lsn <= d.drop_position)
                  THEN d.receipt_position
                  ELSE t.settled END AS position
      FROM thermocline.dropped_range d
      JOIN thermocline.synced_table s ON s.chronotable_id = d.chronotable_id
      CROSS JOIN LATERAL (SELECT CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid = d.trap_oid)
                                      THEN d.settled_position END AS settled) t
      WHERE d.chronotable_id = %(table)s) c
WHERE c.position IS NOT NULL;
