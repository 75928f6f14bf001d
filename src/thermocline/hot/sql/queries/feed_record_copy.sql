INSERT INTO thermocline.chunk_copy (chunk_oid, chronotable_id, how, position, row_count, lake_snapshot)
VALUES (%(chunk)s, %(table)s, 'copied', %(position)s::pg_lsn, %(rows)s, %(snapshot)s)
ON CONFLICT (chunk_oid) DO UPDATE
    SET how = excluded.how, position = excluded.position, row_count = excluded.row_count,
        lake_snapshot = excluded.lake_snapshot, recorded_at = pg_catalog.now();
