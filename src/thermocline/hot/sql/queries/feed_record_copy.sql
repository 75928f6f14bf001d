-- A copy covers its chunk only if every change since its position is in the stream: a table that left and joined again
-- meanwhile is another matter. Of one that streams, something has happened that the stream does not show: no state is known from when all was well
-- to the copy.
WITH unknown AS (
    INSERT INTO thermocline.unknown_span (chronotable_id, after_lsn, after_at, until_lsn)
    SELECT s.chronotable_id, greatest(s.sound_lsn, s.complete_lsn), greatest(s.sound_at, s.complete_at), %(position)s::pg_lsn
    FROM thermocline.synced_table s
    WHERE s.chronotable_id = %(table)s AND s.status = 'STREAMING' AND s.joined_at = %(joined)s AND s.complete_lsn IS NOT NULL
    ON CONFLICT (chronotable_id, after_lsn) DO UPDATE
        SET until_lsn = greatest(unknown_span.until_lsn, excluded.until_lsn), until_at = excluded.until_at
), mended AS (
    DELETE FROM thermocline.mended_chunk m WHERE m.chunk_oid = %(chunk)s::oid
)
INSERT INTO thermocline.chunk_copy (chunk_oid, chronotable_id, how, position, row_count, lake_snapshot, relfilenode, attached)
SELECT %(chunk)s::oid, s.chronotable_id, 'copied', %(position)s::pg_lsn, %(rows)s, %(snapshot)s, %(file)s::oid, %(attached)s::bigint
FROM thermocline.synced_table s
WHERE s.chronotable_id = %(table)s AND s.status IN ('SNAPSHOTTING', 'STREAMING') AND s.streams_from <= %(position)s::pg_lsn
  AND s.joined_at = %(joined)s
ON CONFLICT (chunk_oid) DO UPDATE
    SET how = excluded.how, position = excluded.position, row_count = excluded.row_count,
        lake_snapshot = excluded.lake_snapshot, relfilenode = excluded.relfilenode, attached = excluded.attached,
        recorded_at = pg_catalog.now();
