-- The newest commit of each table that had rows, mirrored from the lake; not of one that has joined anew since it was read.
UPDATE thermocline.synced_table s
SET marker_lsn = greatest(s.marker_lsn, c.marker::pg_lsn), lake_snapshot = c.snapshot, last_write_time = pg_catalog.now(),
    entries = s.entries + c.entries, rate_at = pg_catalog.clock_timestamp(),
    rate = s.rate * exp(-extract(epoch FROM pg_catalog.clock_timestamp() - s.rate_at) / 60) + c.entries / 60.0
FROM unnest(%(tables)s::int[], %(markers)s::text[], %(snapshots)s::bigint[], %(entries)s::bigint[],
            %(joined)s::timestamptz[]) AS c (id, marker, snapshot, entries, joined)
WHERE s.chronotable_id = c.id AND s.joined_at = c.joined;
