-- What the lake's table must be for the ranges that only it has: these identities, and at least at this position.
SELECT coalesce(pg_catalog.array_agg(DISTINCT d.lake_uuid::text) FILTER (WHERE d.lake_uuid IS NOT NULL), '{}'),
       coalesce((max(d.receipt_position) - '0/0'::pg_lsn)::bigint, 0)
FROM thermocline.dropped_range d
WHERE d.chronotable_id = %(table)s AND d.receipt_position IS NOT NULL;
