-- The newest commit of each table that had rows, mirrored from the lake.
UPDATE thermocline.synced_table s
SET marker_lsn = greatest(s.marker_lsn, c.marker::pg_lsn), lake_snapshot = c.snapshot, last_write_time = pg_catalog.now()
FROM unnest(%(tables)s::int[], %(markers)s::text[], %(snapshots)s::bigint[]) AS c (id, marker, snapshot)
WHERE s.chronotable_id = c.id;
