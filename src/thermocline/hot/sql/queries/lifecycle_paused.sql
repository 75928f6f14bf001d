-- What keeps everybody from dropping chunks, if anything does.
SELECT s.what, s.who, s.at AT TIME ZONE 'UTC', s.why FROM thermocline.work_stop s
WHERE s.what IN ('everything', 'destructive', 'retention') ORDER BY s.at LIMIT 1;
