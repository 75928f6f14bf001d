-- How far the feed is behind in time, and how much each table brings.

ALTER TABLE thermocline.stream ADD COLUMN current_at timestamptz;
COMMENT ON COLUMN thermocline.stream.current_at IS 'Whatever was committed before this moment is in the lake.';

ALTER TABLE thermocline.synced_table
    ADD COLUMN entries bigint NOT NULL DEFAULT 0,
    ADD COLUMN rate float8 NOT NULL DEFAULT 0,
    ADD COLUMN rate_at timestamptz NOT NULL DEFAULT pg_catalog.now();
COMMENT ON COLUMN thermocline.synced_table.entries IS 'How many entries the feed has written to its history, copies included.';
COMMENT ON COLUMN thermocline.synced_table.rate IS
    'Entries in a second, as of rate_at: a mean in which a minute ago counts a third of now.';
