SELECT r.id FROM lakets._chronotable_registry r ORDER BY r.id;
