-- How far each synced table has come in the lake: one row for each, like `thermocline feed status`. Lag is NULL for a table that is not
-- in the stream, or before the first batch. In seconds it is exact from above: whatever was committed longer ago is in the lake.
CREATE OR REPLACE FUNCTION lakets.feed_status() RETURNS TABLE (
    table_name      text,
    status          text,
    lake_table      text,
    committed_lsn   pg_lsn,
    lag_bytes       bigint,
    lag_seconds     float8,
    rows_per_second float8,
    entries         bigint,
    chunks          bigint,
    covered         bigint,
    last_write      timestamptz,
    reason          text
)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', r.schema_name, r.table_name), s.status, s.lake_table, s.committed_lsn,
           CASE WHEN s.status IN ('SNAPSHOTTING', 'STREAMING')
                THEN greatest(0, pg_current_wal_lsn() - s.committed_lsn)::bigint END,
           CASE WHEN s.status IN ('SNAPSHOTTING', 'STREAMING') AND s.committed_lsn IS NOT NULL
                THEN round(greatest(0, extract(epoch FROM clock_timestamp() - t.current_at)), 1)::float8 END,
           round((s.rate * exp(-extract(epoch FROM clock_timestamp() - s.rate_at) / 60))::numeric, 1)::float8,
           s.entries,
           (SELECT count(*) FROM thermocline.resident_part p WHERE p.id = s.chronotable_id),
           (SELECT count(*) FROM thermocline.chunk_copy k JOIN pg_class c ON c.oid = k.chunk_oid
            WHERE k.chronotable_id = s.chronotable_id AND k.relfilenode = c.relfilenode),
           s.last_write_time, s.reason
    FROM thermocline.synced_table s
    JOIN thermocline.relation r ON r.id = s.chronotable_id
    LEFT JOIN thermocline.stream t ON true
    ORDER BY 1
$$;

COMMENT ON FUNCTION lakets.feed_status() IS
    'Every synced table: how far it is behind in bytes and seconds, entries in a second, chunks that are covered, and what is wrong.';
