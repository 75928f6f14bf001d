-- The statements of the document that promises 004, RollUps, are taken from, as far as they are about the table beneath.
-- `As printed` stands above what it has letter by letter.
--
-- For later, because there are no RollUps yet: create_rollup, create_rollup_view, refresh_rollup, refresh_rollup_cascade,
-- show_rollup_dag, invalidate_rollup_range, the DELETE and INSERT of a batch of buckets, the query with the injected
-- predicate, and enable_sync and disable_sync of a RollUp.

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

-- As printed; the file is in the server's folder, and has a row every ten seconds:
COPY metrics FROM 'sensor_data.csv'; -- 50,000 rows

SELECT count(*) FROM metrics;
-- => 50004
SELECT count(*) AS buckets, min(readings), max(readings), sum(readings) FROM (
    SELECT lakets.time_bucket('1 hour'::interval, time) AS bucket, avg(cpu), count(*)
    FROM metrics WHERE time > now() - interval '7 days' GROUP BY 1
) dashboard (bucket, cpu, readings);
-- => 140 | 3 | 360 | 50003
