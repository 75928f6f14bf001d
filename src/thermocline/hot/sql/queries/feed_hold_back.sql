-- Which tables wait for the lake's store or its catalog, and why; what was said of others before does not hold any more.
UPDATE thermocline.synced_table s SET reason = w.reason
FROM thermocline.synced_table y
LEFT JOIN unnest(%(tables)s::int[], %(reasons)s::text[]) AS w (id, reason) ON w.id = y.chronotable_id
WHERE y.chronotable_id = s.chronotable_id AND s.status NOT IN ('TERMINATED', 'SKIPPED') AND s.reason IS DISTINCT FROM w.reason;
