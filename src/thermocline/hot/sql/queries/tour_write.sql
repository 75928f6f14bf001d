-- A second of an application's life: new readings, a correction and a deletion.
INSERT INTO thermocline_demo.readings
SELECT clock_timestamp(), s, 20 + s %% 10 FROM generate_series(1, 50) s, generate_series(1, 20);
UPDATE thermocline_demo.readings SET temperature = temperature + 0.5
WHERE sensor = 7 AND ts >= date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '2 days 3 minutes';
DELETE FROM thermocline_demo.readings
WHERE sensor = 13 AND ts < date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - make_interval(days => 3, mins => -%(second)s);
