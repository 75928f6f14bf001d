-- Every synced table joins again, and nothing counts as covered until it has been copied.
WITH uncovered AS (DELETE FROM thermocline.chunk_copy)
UPDATE thermocline.synced_table
SET status = 'JOINING', reason = NULL, waits_for = NULL, streams_from = NULL, committed_lsn = NULL, current_at = NULL, complete_lsn = NULL, complete_at = NULL
WHERE status <> 'TERMINATED';
