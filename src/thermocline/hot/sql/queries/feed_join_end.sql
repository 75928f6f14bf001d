-- Every transaction that was open when the table joined has ended: from here on all of its changes are in the stream.
UPDATE thermocline.synced_table
SET status = 'SNAPSHOTTING', streams_from = pg_catalog.pg_current_wal_insert_lsn()
WHERE chronotable_id = %(table)s AND status = 'JOINING'
  AND waits_for <= pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())
RETURNING chronotable_id;
