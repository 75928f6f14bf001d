-- A sensor was off by two degrees on the day that came back.
UPDATE thermocline_demo.readings SET temperature = temperature + 2
WHERE sensor = 7 AND ts < date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '2 days';
