-- Each sensor's newest temperature, and when it was taken.
SELECT sensor, lakets.last(celsius, time), max(time) FROM readings GROUP BY sensor ORDER BY sensor;
-- => attic | 21.5 | 2026-03-02 10:10:00+00
-- => cellar | 10 | 2026-03-02 10:00:00+00
