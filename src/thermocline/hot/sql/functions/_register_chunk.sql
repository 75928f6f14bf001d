-- A partition becomes a registered chunk; the row of a dropped range that is made again comes back to life.
CREATE OR REPLACE FUNCTION thermocline._register_chunk(
    p_chronotable_id int,
    p_chunk          oid,
    p_name           text,
    p_range_start    timestamptz,
    p_range_end      timestamptz
) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO lakets._chunk_metadata
        (chronotable_id, chunk_name, range_start, range_end, chunk_oid, row_count, size_bytes, last_modified_at)
    VALUES (p_chronotable_id, p_name, p_range_start, p_range_end, p_chunk,
            coalesce((SELECT thermocline._estimated_rows(c.oid, c.reltuples) FROM pg_class c WHERE c.oid = p_chunk), 0),
            pg_total_relation_size(p_chunk), clock_timestamp())
    ON CONFLICT ON CONSTRAINT uq_chunk_metadata_ct_range DO UPDATE
        SET chunk_name = excluded.chunk_name, range_end = excluded.range_end, chunk_oid = excluded.chunk_oid,
            status = 'active', row_count = excluded.row_count, size_bytes = excluded.size_bytes, tiered_at = NULL,
            last_write_lsn = NULL, kept_until = NULL, last_modified_at = excluded.last_modified_at, created_at = now()
$$;

COMMENT ON FUNCTION thermocline._register_chunk(int, oid, text, timestamptz, timestamptz) IS
    'Registers a partition as the chunk of its range.';
