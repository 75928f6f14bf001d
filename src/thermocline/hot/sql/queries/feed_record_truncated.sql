-- TRUNCATE gives a chunk a new file, and the stream has told what became of its rows: it need not be copied for that.
UPDATE thermocline.chunk_copy k SET relfilenode = t.file::oid
FROM (
    SELECT DISTINCT ON (chunk) chunk, position, file
    FROM unnest(%(chunks)s::bigint[], %(positions)s::text[], %(files)s::bigint[]) AS u (chunk, position, file)
    ORDER BY chunk, position::pg_lsn DESC
) t
WHERE k.chunk_oid = t.chunk::oid AND k.position <= t.position::pg_lsn;
