-- Drops a chunk if nothing speaks against it.
SELECT thermocline._drop_chunk(%(chunk)s::oid, NULL, %(gated)s, false, %(reason)s);
