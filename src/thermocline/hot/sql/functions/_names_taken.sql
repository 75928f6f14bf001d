-- Relations that have the name of a chunk that a table would get as a ChronoTable, in words. A chunk of another ChronoTable is none of
-- them: there the new one gets another name.
CREATE OR REPLACE FUNCTION thermocline._names_taken(
    p_table          oid,
    p_schema_name    text,
    p_table_name     text,
    p_time_column    text,
    p_chunk_interval interval
) RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET row_security = off
AS $$
DECLARE
    v_like  oid[] := (SELECT array_agg(c.oid) FROM pg_class c
                      WHERE c.relnamespace = to_regnamespace(quote_ident(p_schema_name)) AND c.relname ~ '_\d{8}_\d{6}$'
                        AND NOT EXISTS (SELECT FROM lakets._chunk_metadata m WHERE m.chunk_oid = c.oid AND m.status <> 'dropped'));
    v_first timestamptz;
    v_last  timestamptz;
BEGIN
    IF v_like IS NULL THEN  -- as nearly always: no need to look for the first and the last row
        RETURN '{}';
    END IF;
    EXECUTE format('SELECT min(%1$I)::timestamptz, max(%1$I)::timestamptz FROM %2$s', p_time_column, p_table::regclass)
        INTO v_first, v_last;
    v_first := lakets.time_bucket(p_chunk_interval, least(now() - p_chunk_interval, v_first));
    v_last := greatest(now() + lakets._chunks_ahead(p_chunk_interval) * p_chunk_interval, v_last);
    IF extract(epoch FROM v_last - v_first) / extract(epoch FROM p_chunk_interval) > 10000 THEN
        RETURN '{}';  -- _ensure_partitions says what is wrong with that
    END IF;
    RETURN (SELECT coalesce(array_agg(format('%s is there already and has the name of a chunk', c.oid::regclass) ORDER BY g.begins), '{}')
            FROM thermocline._grid(p_chunk_interval, v_first, v_last) g
            JOIN pg_class c ON c.relname = lakets._chunk_name(p_table_name, g.begins)
            WHERE c.oid = ANY (v_like));
END
$$;

COMMENT ON FUNCTION thermocline._names_taken(oid, text, text, text, interval) IS
    'What has the name of a chunk that a table would get as a ChronoTable.';
