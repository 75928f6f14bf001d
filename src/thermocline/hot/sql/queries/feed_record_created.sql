-- Chunks whose creation was seen in the stream need no copy, if every change since then is in the stream.
INSERT INTO thermocline.chunk_copy (chunk_oid, chronotable_id, how, position, row_count, relfilenode)
SELECT m.chunk_oid, m.chronotable_id, 'created', c.position::pg_lsn, 0, c.file::oid
FROM unnest(%(chunks)s::bigint[], %(positions)s::text[], %(files)s::bigint[]) AS c (chunk, position, file)
JOIN lakets._chunk_metadata m ON m.chunk_oid = c.chunk::oid AND m.status <> 'dropped'
JOIN thermocline.synced_table s ON s.chronotable_id = m.chronotable_id AND s.status IN ('SNAPSHOTTING', 'STREAMING')
WHERE s.streams_from <= c.position::pg_lsn
ON CONFLICT (chunk_oid) DO NOTHING;
