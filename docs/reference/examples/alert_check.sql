-- Every row of the query is an alert; the row comes along as JSON.
SELECT alert_name, severity, alert_data
FROM lakets.alert_check('too warm', 'SELECT sensor, celsius FROM readings WHERE celsius > 20', 'critical');
-- => too warm | critical | {"sensor": "attic", "celsius": 21.5}

-- All is well.
SELECT alert_name FROM lakets.alert_check('frost', 'SELECT sensor FROM readings WHERE celsius < 0');
-- => no rows
