-- Which table of the lake it was that held a chunk: another one of the same name does not have its rows.

ALTER TABLE thermocline.receipt ADD COLUMN lake_uuid uuid;
ALTER TABLE thermocline.dropped_range ADD COLUMN lake_uuid uuid;
COMMENT ON COLUMN thermocline.dropped_range.lake_uuid IS
    'Identity of the table in the lake that was proven to hold the range; readers ask no other.';
