-- Each sensor's temperature when the morning began.
SELECT sensor, lakets.first(celsius, time) FROM readings GROUP BY sensor ORDER BY sensor;
-- => attic | 18
-- => cellar | 9.5

-- Any type of value will do.
SELECT lakets.first(sensor, time) FROM readings WHERE celsius > 18;
-- => attic
