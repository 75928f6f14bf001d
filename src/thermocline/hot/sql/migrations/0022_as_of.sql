-- From which position on the history of a table has everything: before that, its first copy was not complete.

ALTER TABLE thermocline.synced_table ADD COLUMN complete_lsn pg_lsn, ADD COLUMN complete_at timestamptz;
COMMENT ON COLUMN thermocline.synced_table.complete_lsn IS
    'The state of the table at this position, and at every later one up to committed_lsn, can be read from the lake.';
COMMENT ON COLUMN thermocline.synced_table.complete_at IS 'When that was; what was committed later is above complete_lsn.';
UPDATE thermocline.synced_table s
SET complete_at = pg_catalog.clock_timestamp(),
    complete_lsn = (SELECT max(k.position) FROM thermocline.chunk_copy k WHERE k.chronotable_id = s.chronotable_id)
WHERE s.status = 'STREAMING';
