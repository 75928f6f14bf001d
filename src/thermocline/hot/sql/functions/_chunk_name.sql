-- The name of a chunk: the table's, cut if it must be, and the start of the range in UTC.
CREATE OR REPLACE FUNCTION lakets._chunk_name(p_table_name text, p_range_start timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT lakets._short_name('', p_table_name, to_char(p_range_start AT TIME ZONE 'UTC', '_YYYYMMDD_HH24MISS'))
$$;

COMMENT ON FUNCTION lakets._chunk_name(text, timestamptz) IS
    'Name of the chunk of a table that starts at p_range_start, within 63 bytes.';
