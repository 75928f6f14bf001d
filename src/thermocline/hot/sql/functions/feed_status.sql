-- How far each synced table has come in the lake: one row for each, like `thermocline feed status`. Lag is NULL for a table that is not
-- in the stream, or before the first batch. In seconds it is exact from above: whatever was committed longer ago is in the lake. The commit
-- interval is NULL where the setting feed.interval holds. What is left to copy is the size and the estimated rows of chunks that are not
-- covered; NULL for a table that is set aside or not synced any more.
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
    reason          text,
    commit_interval interval,
    to_copy_bytes   bigint,
    to_copy_rows    bigint
)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', r.schema_name, r.table_name), s.status, s.lake_table, s.committed_lsn,
           CASE WHEN s.status IN ('SNAPSHOTTING', 'STREAMING')
                THEN greatest(0, pg_current_wal_lsn() - s.committed_lsn)::bigint END,
           CASE WHEN s.status IN ('SNAPSHOTTING', 'STREAMING') AND s.committed_lsn IS NOT NULL
                THEN round(greatest(0, extract(epoch FROM clock_timestamp() - s.current_at)), 1)::float8 END,
           round((s.rate * exp(-extract(epoch FROM clock_timestamp() - s.rate_at) / 60))::numeric, 1)::float8,
           s.entries,
           (SELECT count(*) FROM thermocline.resident_part p WHERE p.id = s.chronotable_id),
           (SELECT count(*) FROM thermocline.chunk_copy k JOIN pg_class c ON c.oid = k.chunk_oid
            WHERE k.chronotable_id = s.chronotable_id AND k.relfilenode = c.relfilenode),
           s.last_write_time, coalesce(s.reason, l.reason), s.commit_interval, u.bytes, u.row_count
    FROM thermocline.synced_table s
    JOIN thermocline.relation r ON r.id = s.chronotable_id
    LEFT JOIN LATERAL (
        SELECT coalesce(sum(pg_table_size(c.oid)), 0)::bigint AS bytes,
               coalesce(sum(thermocline._estimated_rows(c.oid, c.reltuples)), 0)::bigint AS row_count
        FROM thermocline.resident_part p JOIN pg_class c ON c.oid = p.part_oid
        WHERE p.id = s.chronotable_id
          AND NOT EXISTS (SELECT FROM thermocline.chunk_copy k WHERE k.chunk_oid = c.oid AND k.relfilenode = c.relfilenode)
    ) u ON s.status IN ('JOINING', 'SNAPSHOTTING', 'STREAMING')
    LEFT JOIN LATERAL (
        SELECT format('Nothing of %s reaches the lake: not logged. ALTER TABLE %s SET LOGGED lets it be copied.',
                      string_agg(c.oid::regclass::text, ', ' ORDER BY c.oid), min(c.oid::regclass::text)) AS reason
        FROM thermocline.resident_part p JOIN pg_class c ON c.oid = p.part_oid
        WHERE p.id = s.chronotable_id AND c.relpersistence <> 'p' HAVING count(*) > 0
    ) l ON s.status IN ('JOINING', 'SNAPSHOTTING', 'STREAMING')
    ORDER BY 1
$$;

COMMENT ON FUNCTION lakets.feed_status() IS
    'Every synced table: how far it is behind in bytes and seconds, entries in a second, chunks that are covered, what is left to copy, and what is wrong.';
