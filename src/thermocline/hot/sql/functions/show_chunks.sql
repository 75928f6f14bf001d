-- The chunks of a ChronoTable that are resident, oldest first, with their sizes as they are now.
CREATE OR REPLACE FUNCTION lakets.show_chunks(
    p_table_name  text,
    p_older_than  interval DEFAULT NULL,
    p_newer_than  interval DEFAULT NULL,
    p_schema_name text     DEFAULT 'public'
) RETURNS TABLE (
    chunk_name  text,
    range_start timestamptz,
    range_end   timestamptz,
    status      text,
    row_count   bigint,
    size_bytes  bigint,
    created_at  timestamptz
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id int := lakets._chronotable_id(p_table_name, p_schema_name);
BEGIN
    RETURN QUERY
    SELECT m.chunk_name, m.range_start, m.range_end, m.status,
           coalesce(thermocline._estimated_rows(c.oid, c.reltuples), m.row_count),
           coalesce(thermocline._size_of(c.oid, c.reltoastrelid, c.relpersistence), m.size_bytes),
           m.created_at
    FROM lakets._chunk_metadata m
    LEFT JOIN pg_class c ON c.oid = m.chunk_oid
    WHERE m.chronotable_id = v_id AND m.status <> 'dropped'
      AND (p_older_than IS NULL OR m.range_end < now() - p_older_than)
      AND (p_newer_than IS NULL OR m.range_start > now() - p_newer_than)
    ORDER BY m.range_start;
END
$$;

COMMENT ON FUNCTION lakets.show_chunks(text, interval, interval, text) IS
    'Resident chunks of a ChronoTable with range, state and size, oldest first.';
