-- Recorded before a chunk is detached, so that whoever comes after a crash knows whose it is and where it belongs. From here on
-- its RollUps show what they have computed of it.
WITH intended AS (
    INSERT INTO thermocline.detaching (chunk_oid, chronotable_id, bound, gated, reason, policy_id)
    SELECT m.chunk_oid, m.chronotable_id, %(bound)s, %(gated)s, %(reason)s, %(policy)s
    FROM lakets._chunk_metadata m
    WHERE m.chunk_oid = %(chunk)s::oid AND m.status <> 'dropped'
    ON CONFLICT (chunk_oid) DO UPDATE
        SET bound = excluded.bound, gated = excluded.gated, reason = excluded.reason, policy_id = excluded.policy_id,
            recorded_at = pg_catalog.clock_timestamp()
    RETURNING chunk_oid
)
SELECT thermocline._serve_from_rollups(m.chronotable_id, m.range_end)
FROM intended i JOIN lakets._chunk_metadata m ON m.chunk_oid = i.chunk_oid AND m.status <> 'dropped';
