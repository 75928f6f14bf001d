SELECT * FROM lakets.lakets_metrics()
WHERE metric_name IN ('lakets_chronotables_total', 'lakets_estimated_rows', 'lakets_sync_enabled');
-- => lakets_chronotables_total | 2 | {}
-- => lakets_estimated_rows | 7 | {"table": "public.readings"}
-- => lakets_estimated_rows | 9 | {"table": "public.requests"}
-- => lakets_sync_enabled | 0 | {"table": "public.readings"}
-- => lakets_sync_enabled | 0 | {"table": "public.requests"}
