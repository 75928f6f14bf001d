-- Tables with a dropped range that has no trap, or has another one than its neighbour though one would do.
SELECT r.id FROM lakets._chronotable_registry r
WHERE EXISTS (SELECT FROM thermocline.dropped_range d WHERE d.chronotable_id = r.id)
  AND EXISTS (SELECT FROM thermocline._trap_islands(r.id, true));
