-- The tables, of those given, whose work is due now: by the schedule of their own, or by that for all. Also those that have been given
-- another rule, to compute their next time anew. With how many of the units before are broken, and none has done their work since.
SELECT t.id, s.id, s.every, s.cron, r.rule, r.last_at, r.next_at, pg_catalog.now(),
       (SELECT pg_catalog.count(*) FROM thermocline.work_unit u
        WHERE u.status IN ('failed', 'dead') AND u.settled_by IS NULL AND u.kind = s.kind AND u.chronotable_id IS NOT DISTINCT FROM t.id)
FROM unnest(%(tables)s::int[]) t (id)
JOIN LATERAL (SELECT o.*, coalesce('cron ' || o.cron, 'every ' || round(extract(epoch FROM o.every), 6)) AS rule
              FROM thermocline.schedule o
              WHERE o.kind = %(kind)s AND (o.chronotable_id = t.id OR o.chronotable_id IS NULL)
              ORDER BY o.chronotable_id NULLS LAST LIMIT 1) s ON s.enabled
LEFT JOIN thermocline.schedule_run r ON r.kind = s.kind AND r.chronotable_id IS NOT DISTINCT FROM t.id
WHERE (r.next_at IS NULL OR r.next_at <= pg_catalog.now() OR r.rule <> s.rule)
  AND (s.problem IS NULL OR NOT starts_with(s.problem, s.rule))
  AND thermocline._work_window_open(s.window_start, s.window_end, s.window_means, pg_catalog.now());
