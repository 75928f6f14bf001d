-- The first thing that speaks against dropping a chunk; a tiered one whose proof no longer holds loses its flag.
SELECT v.code, v.message, v.next_step, thermocline._back_under_gate(%(chunk)s::oid, v.code)
FROM thermocline._chunk_verdict(%(chunk)s::oid, NULL, %(gated)s) v
LIMIT 1;
