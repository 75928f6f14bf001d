-- Marks that no bucket has which is recomputed: what they were about is resident again, and a refresh sees to it.
DELETE FROM lakets._rollup_recompute m USING lakets._rollup_registry g
WHERE g.id = m.rollup_id AND g.id = %(id)s AND pg_catalog.pg_visible_in_snapshot(m.xid, %(seen)s::pg_snapshot)
  AND NOT tstzrange(m.first_time, m.last_time, '[]') && (thermocline._frozen_buckets(g) + g.incomplete);
