-- Everything that speaks against dropping a chunk now.
SELECT v.code, v.message, v.next_step FROM thermocline._chunk_verdict(%(chunk)s::oid, NULL, %(gated)s) v;
