-- Plans, the newest first.
SELECT p.id, p.made_at, p.kind, p.object, p.destructive, p.policy, p.work_unit_id,
       (SELECT count(*) FROM pg_catalog.jsonb_array_elements(p.lines) l (line) WHERE l.line ->> 'action' <> 'stays'), p.ended_at,
       p.lines, p.outcome
FROM thermocline.plan p
WHERE (%(id)s::bigint IS NULL OR p.id = %(id)s) AND (%(kind)s::text IS NULL OR p.kind = %(kind)s)
  AND (%(table)s::text IS NULL OR p.chronotable_id = lakets._chronotable_id(%(table)s, %(schema)s))
ORDER BY p.id DESC
LIMIT %(most)s;
