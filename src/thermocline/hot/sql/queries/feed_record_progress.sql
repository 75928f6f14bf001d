-- Every table of the batch has come as far as the batch, also one that had no row in it.
UPDATE thermocline.synced_table
SET committed_lsn = greatest(committed_lsn, %(end)s::pg_lsn)
WHERE chronotable_id = ANY (%(tables)s) AND status NOT IN ('TERMINATED', 'SKIPPED');
