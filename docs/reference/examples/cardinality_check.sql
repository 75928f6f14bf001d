-- Two sensors are two series.
SELECT * FROM lakets.cardinality_check('readings');
-- => OK | 2 | 100000 | sensor
SELECT status FROM lakets.cardinality_check('readings', p_max_series => 1);
-- => CRITICAL
