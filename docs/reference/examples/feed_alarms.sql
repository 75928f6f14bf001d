-- Nothing is wrong before the first feed has run: nothing keeps the log yet.
SELECT count(*) FROM lakets.feed_alarms();
-- => 0
