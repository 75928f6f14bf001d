-- Forgets old plans; those of destructive work are kept longer.
DELETE FROM thermocline.plan WHERE id IN (
    SELECT p.id FROM thermocline.plan p
    WHERE p.made_at < pg_catalog.now() - CASE WHEN p.destructive THEN %(destructive)s ELSE %(plans)s END
    LIMIT %(most)s);
