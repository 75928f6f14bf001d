-- Whether the mirror of a table lags behind its columns, and whether anything of it is doubted.
SELECT m.columns IS DISTINCT FROM thermocline._columns_told(s.table_oid),
       EXISTS (SELECT FROM thermocline.mirror_doubt d WHERE d.chronotable_id = m.chronotable_id)
FROM thermocline.mirror m JOIN thermocline.synced_table s ON s.chronotable_id = m.chronotable_id
WHERE m.chronotable_id = %(table)s;
