-- The number of a feed is never given twice, also when a stream has ended and another one has begun: a feed that slept through both
-- must not meet its own.

CREATE SEQUENCE thermocline.feed_epoch OWNED BY thermocline.stream.epoch;
COMMENT ON SEQUENCE thermocline.feed_epoch IS 'The numbers of feeds, each given once.';
SELECT pg_catalog.setval('thermocline.feed_epoch', pg_catalog.max(epoch) + 1) FROM thermocline.stream HAVING pg_catalog.count(*) > 0;
