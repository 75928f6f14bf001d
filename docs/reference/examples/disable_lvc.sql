SELECT lakets.enable_lvc('readings', ARRAY['sensor'], ARRAY['celsius']);
SELECT lakets.disable_lvc('readings');
SELECT to_regclass('_lvc_readings') AS cache;
-- => NULL
