-- Chunks of a table that a policy comes to within a day and that lack a good receipt, oldest first, and when it comes. Of those that the
-- stream may have written to since theirs the rows are looked at. Those that could not be proven lately, and those
-- that change again and again, wait their time.
WITH ages AS (
    SELECT pg_catalog.min(coalesce(p.config ->> 'after', p.config ->> 'tier_after')::interval) AS tier_after,
           pg_catalog.min((p.config ->> 'drop_after')::interval) AS drop_after
    FROM lakets._policy_registry p WHERE p.chronotable_id = %(table)s AND p.enabled
), soon AS MATERIALIZED (
    SELECT m.chunk_oid, m.chunk_name, m.range_start, m.last_modified_at, least(d.tier_due, d.drop_due) AS due
    FROM lakets._chunk_metadata m CROSS JOIN ages a
    CROSS JOIN LATERAL (SELECT CASE WHEN m.status = 'active' THEN m.range_end + a.tier_after END AS tier_due,
                               m.range_end + a.drop_after AS drop_due) d
    LEFT JOIN thermocline.unproven u ON u.chunk_oid = m.chunk_oid
    WHERE m.chronotable_id = %(table)s AND m.status <> 'dropped' AND m.range_end <= pg_catalog.now()
      AND least(d.tier_due, d.drop_due) <= pg_catalog.now() + interval '1 day'
      AND (u.chunk_oid IS NULL OR u.not_before <= pg_catalog.clock_timestamp())
      AND (thermocline._prove_again(m.chunk_oid, m.last_modified_at) > pg_catalog.clock_timestamp()) IS NOT TRUE
      AND EXISTS (SELECT FROM thermocline.synced_table s WHERE s.chronotable_id = %(table)s AND s.status = 'STREAMING')
)
SELECT s.chunk_oid::bigint, s.chunk_name, s.due
FROM soon s
JOIN thermocline._chunks_against((SELECT pg_catalog.array_agg(n.chunk_oid) FROM soon n), true) g ON g.chunk_oid = s.chunk_oid
WHERE g.codes[1] IN ('no_receipt', 'receipt_stale', 'rewritten', 'columns_changed')
   OR EXISTS (SELECT FROM thermocline.unproven u WHERE u.chunk_oid = s.chunk_oid AND NOT coalesce(u.last_at < g.made_at, false)
              AND g.codes <@ ARRAY['lake_changed', 'lake_unchecked'])
   OR CASE WHEN s.last_modified_at > g.made_at AND g.codes <@ ARRAY['lake_changed', 'lake_unchecked']
           THEN EXISTS (SELECT FROM thermocline._chunk_verdict(s.chunk_oid) v WHERE v.code = 'changed_since_receipt') END
ORDER BY s.range_start;
