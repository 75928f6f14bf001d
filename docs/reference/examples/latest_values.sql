SELECT lakets.enable_lvc('readings', ARRAY['sensor'], ARRAY['celsius']);
-- The caller says which columns there are: keys, values, and last_updated at the end.
SELECT * FROM lakets.latest_values('readings') AS newest (sensor text, celsius float8, last_updated timestamptz);
-- => attic | 21.5 | 2026-03-02 10:10:00+00
-- => cellar | 10 | 2026-03-02 10:00:00+00
