-- A sample of now; the table has the columns that this needs.
CREATE TABLE samples (time timestamptz NOT NULL, metric_name text NOT NULL, labels jsonb, value float8);
SELECT lakets.create_chronotable('samples', 'time', '1 day');
-- => 3
SELECT lakets.ingest_prometheus('samples', 'http_requests_total', '{"code": "200"}', 1027);
SELECT metric_name, labels, value FROM samples;
-- => http_requests_total | {"code": "200"} | 1027
