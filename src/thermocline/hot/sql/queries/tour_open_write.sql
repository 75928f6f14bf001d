-- A late reading into the oldest chunk, in a transaction that stays open.
INSERT INTO thermocline_demo.readings
VALUES (date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '3 days', 99, -40);
