-- A chunk is copied again when it has been rewritten, as by ALTER TYPE: its values may be others, and the stream says nothing of it.

ALTER TABLE thermocline.chunk_copy ADD COLUMN relfilenode oid;
UPDATE thermocline.chunk_copy k SET relfilenode = c.relfilenode FROM pg_catalog.pg_class c WHERE c.oid = k.chunk_oid;
COMMENT ON COLUMN thermocline.chunk_copy.relfilenode IS
    'The file that the chunk had then, or after the last TRUNCATE that the stream has told of. With another one it was rewritten.';
