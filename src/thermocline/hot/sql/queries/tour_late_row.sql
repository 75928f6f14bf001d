-- A reading for a day that has left PostgreSQL.
INSERT INTO thermocline_demo.readings
VALUES (date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '2 days 12 hours', 7, 40);
