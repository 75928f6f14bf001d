-- Drops that were begun, oldest first.
SELECT d.chunk_oid::bigint, d.gated, d.reason
FROM thermocline.detaching d
ORDER BY d.recorded_at;
