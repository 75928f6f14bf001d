-- The statements of the document that promises 004, RollUps, are taken from. `As printed` stands above what it has letter by
-- letter.

-- Three rows of one hour today, and one that is too old for the dashboard.
CREATE TABLE metrics (time timestamptz NOT NULL, cpu float8);
INSERT INTO metrics
SELECT date_trunc('hour', now()) - interval '2 hours' + minutes * interval '1 minute', minutes
FROM unnest('{0, 20, 40}'::int[]) minutes;
INSERT INTO metrics VALUES (now() - interval '8 days', 1000);
SELECT lakets.create_chronotable('metrics', 'time');
-- => 1

-- As printed, but for the word `interval`: PostgreSQL takes '7 days' by itself for a point in time.
SELECT lakets.time_bucket('1 hour'::interval, time) AS bucket, avg(cpu), count(*)
FROM metrics WHERE time > now() - interval '7 days' GROUP BY 1;
-- => ...:00:00+00 | 20 | 3

-- The dashboard's query as a RollUp, and days and weeks from it. Averages are weighted by what they are made of.
SELECT lakets.create_rollup('metrics_hourly',
    'SELECT lakets.time_bucket(''1 hour''::interval, time) AS bucket, avg(cpu), count(*) FROM metrics GROUP BY 1');
-- => 1
SELECT lakets.create_rollup('metrics_daily',
    'SELECT lakets.time_bucket(''1 day'', bucket) AS bucket, sum(avg * count) / sum(count) AS avg, sum(count) AS count
     FROM _rollup_metrics_hourly GROUP BY 1', '1 day');
-- => 2
SELECT lakets.create_rollup('metrics_weekly',
    'SELECT lakets.time_bucket(''7 days'', bucket) AS bucket, sum(avg * count) / sum(count) AS avg, sum(count) AS count
     FROM _rollup_metrics_daily GROUP BY 1', '7 days', p_depends_on => '{metrics_daily}');
-- => 3
SELECT lakets.create_rollup_view('metrics_hourly',
    'SELECT lakets.time_bucket(''1 hour''::interval, time) AS bucket, avg(cpu), count(*) FROM metrics
     WHERE time >= lakets._rollup_watermark(''metrics_hourly'') GROUP BY 1');
SELECT avg, count FROM _rollup_metrics_hourly ORDER BY bucket;
-- => 1000 | 1
-- => 20 | 3

-- As printed; the file is in the server's folder, and has a row every ten seconds:
COPY metrics FROM 'sensor_data.csv'; -- 50,000 rows

SELECT count(*) FROM metrics;
-- => 50004
SELECT count(*) AS buckets, min(readings), max(readings), sum(readings) FROM (
    SELECT lakets.time_bucket('1 hour'::interval, time) AS bucket, avg(cpu), count(*)
    FROM metrics WHERE time > now() - interval '7 days' GROUP BY 1
) dashboard (bucket, cpu, readings);
-- => 140 | 3 | 360 | 50003

-- The view has them at once, the table has not.
SELECT count(*) AS buckets, min(count), max(count), sum(count) FROM _rollup_rt_metrics_hourly;
-- => 141 | 1 | 360 | 50004
SELECT count(*) FROM _rollup_metrics_hourly;
-- => 2

-- As printed, the times aside.
SELECT * FROM lakets.refresh_rollup_cascade('metrics_weekly');
-- => metrics_hourly | t | ...
-- => metrics_daily | t | ...
-- => metrics_weekly | t | ...

SELECT count(*) AS buckets, min(count), max(count), sum(count) FROM _rollup_metrics_hourly;
-- => 141 | 1 | 360 | 50004
SELECT sum(count) FROM _rollup_metrics_daily;
-- => 50004
SELECT sum(count), round(sum(avg * count)::numeric) AS cpu FROM _rollup_metrics_weekly;
-- => 50004 | 2476060
SELECT round(sum(cpu)::numeric) FROM metrics;
-- => 2476060

-- Each keeps to its refresh_lag of an hour.
SELECT lakets.refresh_rollup('metrics_hourly');
-- => f
SELECT rollup_name, refreshed FROM lakets.refresh_rollup_cascade('metrics_weekly');
-- => metrics_hourly | f
-- => metrics_daily | f
-- => metrics_weekly | f

-- As printed.
SELECT * FROM lakets.show_rollup_dag();
-- => metrics_hourly | {} | 1 | 01:00:00 | ...
-- => metrics_daily | {metrics_hourly} | 2 | 1 day | ...
-- => metrics_weekly | {metrics_daily} | 3 | 7 days | ...

-- A correction, and the buckets of a range by hand, both ends included.
UPDATE metrics SET cpu = 10 WHERE cpu = 1000;
SELECT lakets.invalidate_rollup_range('metrics_hourly', now() - interval '8 days', now() - interval '8 days' + interval '2 hours');
-- => 3
UPDATE lakets._rollup_registry SET refresh_lag = '0' WHERE name = 'metrics_hourly';
SELECT lakets.refresh_rollup('metrics_hourly');
-- => t
SELECT avg, count FROM _rollup_metrics_hourly ORDER BY bucket LIMIT 1;
-- => 10 | 1

-- A RollUp is a table in which buckets are replaced. The two statements as printed, with a query in the place of `query`.
CREATE TABLE _rollup_hourly AS SELECT * FROM _rollup_metrics_hourly;
UPDATE _rollup_hourly SET count = -1 WHERE bucket >= now() - interval '2 days';
DO $$ DECLARE dirty_buckets_array timestamptz[] := (SELECT array_agg(bucket) FROM _rollup_hourly WHERE count < 0); BEGIN
    DELETE FROM _rollup_hourly WHERE bucket = ANY(dirty_buckets_array); INSERT INTO _rollup_hourly SELECT * FROM (
        SELECT lakets.time_bucket('1 hour'::interval, time) AS bucket, avg(cpu), count(*) FROM metrics GROUP BY 1
    ) WHERE bucket = ANY(dirty_buckets_array); END $$;
SELECT count(*) FROM (TABLE _rollup_hourly EXCEPT TABLE _rollup_metrics_hourly) different;
-- => 0
SELECT count(*) FROM _rollup_hourly;
-- => 141

-- Of these two it prints the names. A RollUp is synced and no longer synced; twice is once.
SELECT lakets.enable_sync('metrics_hourly');
-- warning: no feed is running, so nothing of public._rollup_metrics_hourly reaches the lake yet
SELECT sync_enabled FROM lakets._rollup_registry WHERE name = 'metrics_hourly';
-- => t
SELECT lakets.enable_sync('metrics_hourly');
-- notice: ...
SELECT lakets.disable_sync('metrics_hourly');
-- notice: that was the last synced table; `thermocline feed` removes the replication slot
SELECT sync_enabled FROM lakets._rollup_registry WHERE name = 'metrics_hourly';
-- => f
SELECT count(*) > 100 AS still_there FROM _rollup_metrics_hourly;
-- => t
