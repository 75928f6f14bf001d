-- Each synced table has its own interval between two commits to the lake, so each has come as far as it has: the stream as a whole is
-- where the last of them is.

ALTER TABLE thermocline.synced_table
    ADD COLUMN commit_interval interval
        CHECK (commit_interval >= interval '0' AND commit_interval <= interval '1 hour'),
    ADD COLUMN current_at timestamptz;
COMMENT ON COLUMN thermocline.synced_table.commit_interval IS
    'How long changes may wait for their commit to the lake; NULL: as the setting feed.interval says.';
COMMENT ON COLUMN thermocline.synced_table.current_at IS 'Whatever was committed to the table before this moment is in the lake.';
UPDATE thermocline.synced_table s SET current_at = t.current_at FROM thermocline.stream t WHERE s.status = 'STREAMING';
COMMENT ON COLUMN thermocline.stream.position IS 'The changes of every synced table below this position are in the lake.';

DROP FUNCTION IF EXISTS lakets.feed_status();
