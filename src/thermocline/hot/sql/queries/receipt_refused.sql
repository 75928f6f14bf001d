-- Comparisons that failed: why, since when, and how often in a row. The more often, the longer nobody tries again by himself: from five
-- minutes to a day.
INSERT INTO thermocline.unproven AS u (chunk_oid, chronotable_id, code, message, next_step, not_before)
SELECT m.chunk_oid, m.chronotable_id, f.code, f.message, f.next_step, pg_catalog.clock_timestamp() + interval '5 minutes'
FROM unnest(%(chunks)s::bigint[], %(codes)s::text[], %(messages)s::text[], %(steps)s::text[]) f (chunk, code, message, next_step)
JOIN lakets._chunk_metadata m ON m.chunk_oid = f.chunk::oid AND m.status <> 'dropped'
ON CONFLICT (chunk_oid) DO UPDATE
    SET code = excluded.code, message = excluded.message, next_step = excluded.next_step,
        since = CASE WHEN u.code = excluded.code THEN u.since ELSE excluded.since END,
        last_at = excluded.last_at, attempts = u.attempts + 1,
        not_before = pg_catalog.clock_timestamp()
                     + least(interval '1 day', interval '5 minutes' * pg_catalog.power(2, least(u.attempts, 20)));
