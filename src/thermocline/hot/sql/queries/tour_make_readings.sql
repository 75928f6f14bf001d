-- A week of readings of fifty sensors, one every five minutes: about a hundred thousand rows, made anew each time.
DROP TABLE IF EXISTS thermocline_demo.readings;
CREATE SCHEMA IF NOT EXISTS thermocline_demo;
CREATE TABLE thermocline_demo.readings (
    ts          timestamptz NOT NULL,
    sensor      int         NOT NULL,
    temperature float8      NOT NULL,
    PRIMARY KEY (sensor, ts)
);
INSERT INTO thermocline_demo.readings (ts, sensor, temperature)
SELECT t, s, 15 + s % 10 + extract(day FROM t)::int * 0.25 + 8 * sin(extract(epoch FROM t) / 86400 * 2 * pi() + s)
FROM generate_series(timestamptz '2026-01-05 00:00+00', '2026-01-11 23:55+00', interval '5 minutes') t,
     generate_series(1, 50) s;
ANALYZE thermocline_demo.readings;
