SELECT schema_name, table_name FROM lakets._chronotable_registry ORDER BY 1, 2;
