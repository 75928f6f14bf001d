-- Tables whose late rows go to the lake, and those that have some of them left or a trap that is not as it should be.
SELECT r.id FROM lakets._chronotable_registry r WHERE r.late = 'lake'
UNION
SELECT t.chronotable_id FROM thermocline.trap t WHERE t.size_bytes > 0 OR t.is_open <> t.takes_rows
ORDER BY 1;
