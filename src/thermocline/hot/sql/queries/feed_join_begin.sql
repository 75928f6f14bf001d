-- Everything that is open now is below this; the snapshot is taken after the table was seen to have joined.
UPDATE thermocline.synced_table
SET waits_for = pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())
WHERE chronotable_id = %(table)s AND status = 'JOINING' AND waits_for IS NULL;
