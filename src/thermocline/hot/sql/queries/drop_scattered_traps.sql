-- Tables with a dropped range that has no trap, or has another one than its neighbour.
SELECT DISTINCT d.chronotable_id
FROM thermocline.dropped_range d
WHERE d.trap_oid IS NULL
   OR EXISTS (SELECT FROM thermocline.dropped_range n
              WHERE n.chronotable_id = d.chronotable_id AND n.range_start = d.range_end
                AND n.trap_oid IS DISTINCT FROM d.trap_oid);
