-- A ChronoTable or a RollUp, its history in the lake, and whether anything of it may be there only.
SELECT t.id, t.table_oid::bigint, t.time_column, s.lake_table,
       t.id > 0 AND (s.lake_snapshot IS NOT NULL
           OR EXISTS (SELECT FROM thermocline.dropped_range d WHERE d.chronotable_id = t.id AND s.lake_table IS NOT NULL))
FROM thermocline.relation t LEFT JOIN thermocline.synced_table s ON s.chronotable_id = t.id
WHERE t.schema_name = %(schema)s AND t.table_name = %(table)s;
