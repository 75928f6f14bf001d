-- Ranges that were dropped outright while nothing streamed: they are gone, whatever the lake still has of them.
SELECT d.range_start, d.range_end FROM thermocline.dropped_range d
WHERE d.chronotable_id = %(table)s AND NOT d.in_lake;
