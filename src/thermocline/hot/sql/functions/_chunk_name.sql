-- The name of a chunk: the table's, and the start of the range in UTC. The name of a table that is too long for that is
-- cut and told apart by a hash, so that two long names never meet within PostgreSQL's 63 bytes.
CREATE OR REPLACE FUNCTION lakets._chunk_name(p_table_name text, p_range_start timestamptz) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_base  text := p_table_name;
    v_start text := to_char(p_range_start AT TIME ZONE 'UTC', '_YYYYMMDD_HH24MISS');
    v_room  int  := 63 - octet_length(v_start);
BEGIN
    IF octet_length(v_base) > v_room THEN
        WHILE octet_length(v_base) > v_room - 9 LOOP
            v_base := left(v_base, -1);
        END LOOP;
        v_base := v_base || '_' || left(md5(p_table_name), 8);
    END IF;
    RETURN v_base || v_start;
END
$$;

COMMENT ON FUNCTION lakets._chunk_name(text, timestamptz) IS
    'Name of the chunk of a table that starts at p_range_start, within 63 bytes.';
