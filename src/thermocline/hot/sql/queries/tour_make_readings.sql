-- Three days of readings of fifty sensors, one a minute, in chunks of a day, with RollUps by hour and by day; made anew each time.
SELECT lakets.drop_rollup(name) FROM lakets.show_rollups() WHERE name IN ('thermocline_demo_daily', 'thermocline_demo_weekly', 'thermocline_demo_two_days');
SELECT lakets.drop_rollup(name) FROM lakets.show_rollups() WHERE name = 'thermocline_demo_hourly';
SELECT lakets.disable_sync(table_name, schema_name) FROM lakets._chronotable_registry
WHERE schema_name = 'thermocline_demo' AND table_name = 'readings';
DELETE FROM lakets._chronotable_registry WHERE schema_name = 'thermocline_demo' AND table_name = 'readings';
DROP TABLE IF EXISTS thermocline_demo.readings;
CREATE SCHEMA IF NOT EXISTS thermocline_demo;
CREATE TABLE thermocline_demo.readings (
    ts          timestamptz NOT NULL,
    sensor      int         NOT NULL,
    temperature float8      NOT NULL
);
INSERT INTO thermocline_demo.readings (ts, sensor, temperature)
SELECT t, s, 15 + s % 10 + 8 * sin(extract(epoch FROM t) / 86400 * 2 * pi() + s)
FROM generate_series(date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '3 days',
                     date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '1 minute',
                     interval '1 minute') t,
     generate_series(1, 50) s;
SELECT lakets.create_chronotable('readings', 'ts', '1 day', 'thermocline_demo');
SELECT lakets.enable_sync('readings', 'thermocline_demo');
SELECT lakets.add_tiered_retention_policy('readings', '1 day', '2 days', 'thermocline_demo');
SELECT lakets.create_rollup('thermocline_demo_hourly',
    'SELECT lakets.time_bucket(''1 hour'', ts) AS hour, sensor, sum(temperature) AS total, count(*) AS n
     FROM thermocline_demo.readings GROUP BY hour, sensor');
SELECT lakets.create_rollup('thermocline_demo_daily',
    'SELECT lakets.time_bucket(''1 day'', hour) AS day, sensor, sum(total) AS total, sum(n) AS n
     FROM public._rollup_thermocline_demo_hourly GROUP BY day, sensor', '1 day');
SELECT lakets.create_rollup_view('thermocline_demo_hourly', NULL);
UPDATE lakets._rollup_registry SET refresh_lag = '0' WHERE name LIKE 'thermocline\_demo\_%';
