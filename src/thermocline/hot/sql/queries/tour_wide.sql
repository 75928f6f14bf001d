-- A RollUp by two days, of which the first has left PostgreSQL.
SELECT lakets.create_rollup('thermocline_demo_two_days', format(
    'SELECT lakets.time_bucket(''2 days'', ts, timestamptz %%L) AS days, sensor, sum(temperature) AS total, count(*) AS n
     FROM thermocline_demo.readings GROUP BY days, sensor',
    date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '3 days'), '2 days');
