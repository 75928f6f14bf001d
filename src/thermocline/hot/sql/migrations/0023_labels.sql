-- Renaming a label of an enum changes values without a word in the stream and without a rewrite.

ALTER TABLE thermocline.synced_table ADD COLUMN labels jsonb;
COMMENT ON COLUMN thermocline.synced_table.labels IS
    'The labels of the enums among its columns, by the number of each label, as they were when the feed looked last.';
