-- A weekly RollUp. Its weeks end at midnight, so that the last one has the day that has left PostgreSQL and two that are there.
SELECT lakets.create_rollup('thermocline_demo_weekly', format(
    'SELECT lakets.time_bucket(''7 days'', ts, timestamptz %L) AS week, sensor, sum(temperature) AS total, count(*) AS n
     FROM thermocline_demo.readings GROUP BY week, sensor',
    date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '7 days'), '7 days');
SELECT lakets.set_refresh_lag('thermocline_demo_weekly', '0');
