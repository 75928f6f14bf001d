-- Four buckets of five degrees, from 5 to 25.
SELECT lakets.histogram(celsius, 5, 25, 4) AS bucket, count(*) FROM readings GROUP BY bucket ORDER BY bucket;
-- => 0 | 2
-- => 1 | 1
-- => 2 | 3
-- => 3 | 1

-- What lies outside counts with the nearest.
SELECT lakets.histogram(-3, 5, 25, 4) AS below, lakets.histogram(40, 5, 25, 4) AS above;
-- => 0 | 3
