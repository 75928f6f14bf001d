-- A copy covers its chunk only if every change since its position is in the stream: a table that left and joined again
-- meanwhile is another matter.
INSERT INTO thermocline.chunk_copy (chunk_oid, chronotable_id, how, position, row_count, lake_snapshot, relfilenode)
SELECT %(chunk)s::oid, s.chronotable_id, 'copied', %(position)s::pg_lsn, %(rows)s, %(snapshot)s, %(file)s::oid
FROM thermocline.synced_table s
WHERE s.chronotable_id = %(table)s AND s.status IN ('SNAPSHOTTING', 'STREAMING') AND s.streams_from <= %(position)s::pg_lsn
ON CONFLICT (chunk_oid) DO UPDATE
    SET how = excluded.how, position = excluded.position, row_count = excluded.row_count,
        lake_snapshot = excluded.lake_snapshot, relfilenode = excluded.relfilenode, recorded_at = pg_catalog.now();
