-- A reading of yesterday at ten comes only now.
INSERT INTO thermocline_demo.readings
VALUES (date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '14 hours', 7, 81);
