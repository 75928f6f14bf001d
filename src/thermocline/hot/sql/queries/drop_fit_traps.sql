-- Traps that do not do what their table says of late rows are opened or closed, if nobody is in the way.
SELECT thermocline._fit_traps(t.chronotable_id)
FROM (SELECT DISTINCT chronotable_id FROM thermocline.trap WHERE is_open <> takes_rows ORDER BY 1) t;
