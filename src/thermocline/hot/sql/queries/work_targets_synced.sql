-- ChronoTables whose changes go to the lake; RollUps, which have negative numbers, have no chunks to compare.
SELECT s.chronotable_id FROM thermocline.synced_table s WHERE s.status <> 'TERMINATED' AND s.chronotable_id > 0 ORDER BY 1;
