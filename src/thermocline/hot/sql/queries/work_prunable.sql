-- How many units and plans are old enough to be forgotten.
SELECT (SELECT count(*) FROM thermocline.work_unit u
        WHERE u.ended_at < pg_catalog.now() - CASE WHEN u.status IN ('failed', 'dead') THEN %(broken)s ELSE %(done)s END),
       (SELECT count(*) FROM thermocline.plan p
        WHERE p.made_at < pg_catalog.now() - CASE WHEN p.destructive THEN %(destructive)s ELSE %(plans)s END);
