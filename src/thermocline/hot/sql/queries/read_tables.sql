-- Everything that can be asked for by name: ChronoTables and RollUps.
SELECT schema_name, table_name FROM thermocline.relation ORDER BY 1, 2;
