SELECT id, lake_table, lake_snapshot, range_start, range_end
FROM thermocline.receipt WHERE chunk_oid = %(chunk)s::oid ORDER BY id DESC LIMIT 1;
