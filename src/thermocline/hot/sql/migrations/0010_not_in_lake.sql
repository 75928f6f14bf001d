-- Ranges that were dropped while they were not covered by the feed: what the lake has of them is older than what was
-- dropped.

ALTER TABLE thermocline.dropped_range ADD COLUMN in_lake boolean NOT NULL DEFAULT true;
COMMENT ON COLUMN thermocline.dropped_range.in_lake IS
    'Whether the lake had every change of the range when it was dropped; readers leave out a range of which it had not.';
