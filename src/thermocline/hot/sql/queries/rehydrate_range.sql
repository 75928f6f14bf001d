-- A range that is wanted back, with what is needed to read it from the lake, what its receipt says it had when it left, and the first thing
-- that speaks against it now.
SELECT t.table_oid::bigint AS table_oid, pg_catalog.format('%%I.%%I', t.schema_name, t.table_name) AS source, t.time_column,
       r.range_start, r.range_end, s.lake_table, s.lake_snapshot, d.lake_uuid::text AS lake_uuid,
       (d.drop_position - '0/0'::pg_lsn)::bigint AS dropped_at, c.row_count AS proven_rows, c.hash_one, c.hash_two,
       c.lake_snapshot AS proven_in, d.traps_lost,
       (SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(o.one -> 'name', o.one -> 'type', o.one -> 'typmod') ORDER BY o.place)
        FROM pg_catalog.jsonb_array_elements(c.columns) WITH ORDINALITY o (one, place))
       = (SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(o.one -> 'name', o.one -> 'type', o.one -> 'typmod') ORDER BY o.place)
          FROM pg_catalog.jsonb_array_elements(thermocline._chunk_columns(t.table_oid)) WITH ORDINALITY o (one, place)) AS same_columns,
       x.code, x.message, x.next_step
FROM thermocline.rehydration r
JOIN lakets._chronotable_registry t ON t.id = r.chronotable_id
LEFT JOIN thermocline.dropped_range d ON d.chronotable_id = r.chronotable_id AND d.range_start = r.range_start
LEFT JOIN thermocline.receipt c ON c.id = d.receipt_id
LEFT JOIN thermocline.synced_table s ON s.chronotable_id = r.chronotable_id
LEFT JOIN LATERAL (
    SELECT * FROM thermocline._rehydration_plan(r.chronotable_id, r.range_start, r.range_end) x
    WHERE x.code IS NOT NULL ORDER BY x.range_start LIMIT 1
) p ON true
CROSS JOIN LATERAL (
    SELECT p.code, p.message, p.next_step WHERE r.kept_until > pg_catalog.clock_timestamp()
    UNION ALL
    SELECT 'not_wanted', 'nobody wants it back any more', 'Ask for it again: `thermocline rehydrate`.'
    WHERE r.kept_until <= pg_catalog.clock_timestamp()
) x
WHERE r.chronotable_id = %(table)s AND r.range_start = %(start)s;
