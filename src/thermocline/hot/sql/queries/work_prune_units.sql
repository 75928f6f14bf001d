-- Forgets units that ended long ago; broken ones are kept longer.
DELETE FROM thermocline.work_unit WHERE id IN (
    SELECT u.id FROM thermocline.work_unit u
    WHERE u.ended_at < pg_catalog.now() - CASE WHEN u.status IN ('failed', 'dead') THEN %(broken)s ELSE %(done)s END
    LIMIT %(most)s);
