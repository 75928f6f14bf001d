-- Chunks whose creation was seen in the stream need no copy, if every change since then is in the stream: not if a mirror was mended.
INSERT INTO thermocline.chunk_copy (chunk_oid, chronotable_id, how, position, row_count, relfilenode, attached)
SELECT m.chunk_oid, m.chronotable_id, 'created', c.position::pg_lsn, 0, c.file::oid, c.attached
FROM unnest(%(chunks)s::bigint[], %(positions)s::text[], %(files)s::bigint[], %(attached)s::bigint[]) AS c (chunk, position, file, attached)
JOIN lakets._chunk_metadata m ON m.chunk_oid = c.chunk::oid AND m.status <> 'dropped'
JOIN thermocline.synced_table s ON s.chronotable_id = m.chronotable_id AND s.status IN ('SNAPSHOTTING', 'STREAMING')
WHERE s.streams_from <= c.position::pg_lsn
  AND NOT EXISTS (SELECT FROM thermocline.mended_chunk n WHERE n.chunk_oid = m.chunk_oid)
ON CONFLICT (chunk_oid) DO NOTHING;
