-- Which server has not reported for two days?
SELECT alert_name, severity, dead_key, silent_for > interval '2 days' AS too_long
FROM lakets.alert_deadman('silent server', 'requests', 'host', '2 days');
-- => silent server | critical | web-2 | t
