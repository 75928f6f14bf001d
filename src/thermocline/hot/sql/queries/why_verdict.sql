-- What becomes of a chunk, why, since when, and what to do: as everybody is told it, with its rows read.
SELECT v.verdict, v.reason, v.message, v.since, v.next_step
FROM lakets._chunk_metadata m, LATERAL thermocline._verdicts(m.chronotable_id, m.chunk_oid, NULL, true) v
WHERE m.chunk_oid = %(chunk)s::oid AND m.status <> 'dropped';
