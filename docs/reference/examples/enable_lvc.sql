-- The newest temperature of each sensor, always at hand.
SELECT lakets.enable_lvc('readings', ARRAY['sensor'], ARRAY['celsius']);
SELECT * FROM _lvc_readings ORDER BY sensor;
-- => attic | 21.5 | 2026-03-02 10:10:00+00
-- => cellar | 10 | 2026-03-02 10:00:00+00

-- It follows what is written. A row that comes late changes nothing.
INSERT INTO readings VALUES ('2026-03-02 10:40:00+00', 'cellar', 11.0), ('2026-03-02 09:00:00+00', 'attic', 20.0);
SELECT * FROM _lvc_readings ORDER BY sensor;
-- => attic | 21.5 | 2026-03-02 10:10:00+00
-- => cellar | 11 | 2026-03-02 10:40:00+00
