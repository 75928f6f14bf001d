SELECT s.committed_lsn >= %(fence)s::pg_lsn, s.status, s.reason
FROM thermocline.synced_table s WHERE s.chronotable_id = %(table)s;
