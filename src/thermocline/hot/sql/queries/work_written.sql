-- Tiered chunks of a table that the stream may have written to since their receipt: looked at with their rows, and back under the gate
-- if they were.
SELECT m.chunk_name, v.code, thermocline._back_under_gate(m.chunk_oid, v.code)
FROM lakets._chunk_metadata m
CROSS JOIN LATERAL (SELECT r.made_at FROM thermocline.receipt r WHERE r.chunk_oid = m.chunk_oid ORDER BY r.id DESC LIMIT 1) r
CROSS JOIN LATERAL (SELECT x.code FROM thermocline._chunk_verdict(m.chunk_oid) x LIMIT 1) v
WHERE m.chronotable_id = %(table)s AND m.status = 'tiered' AND m.last_modified_at > r.made_at;
