-- What speaks against sending a table's changes to the lake, every reason at once; each names its column.
CREATE OR REPLACE FUNCTION thermocline._reasons_against_sync(p_table oid) RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH columns AS (
        SELECT attname, atttypid, atttypmod
        FROM pg_attribute WHERE attrelid = p_table AND attnum > 0 AND NOT attisdropped AND attgenerated <> 'v'
    )
    SELECT coalesce(array_agg(reason ORDER BY reason), '{}')
    FROM (
        SELECT format('its column %I has the type %s, which %s', c.attname, format_type(c.atttypid, c.atttypmod),
                      thermocline._reason_against_type(c.atttypid)) AS reason
        FROM columns c
        WHERE thermocline._reason_against_type(c.atttypid) IS NOT NULL
        UNION ALL
        SELECT format('its column %I is generated when it is read, and PostgreSQL refuses changes of such rows that it is to send whole', attname)
        FROM pg_attribute WHERE attrelid = p_table AND attnum > 0 AND NOT attisdropped AND attgenerated = 'v'
        UNION ALL
        SELECT format('its column %I has a name that the lake uses itself', attname)
        FROM columns
        WHERE lower(attname) IN ('_change_type', '_lsn', '_seq', '_xid', '_timestamp', '_unrepresentable', '_range_end')
        UNION ALL
        SELECT format('its columns %s differ only in upper and lower case', string_agg(quote_ident(attname), ' and '
                                                                                       ORDER BY attname))
        FROM columns GROUP BY lower(attname) HAVING count(*) > 1
        UNION ALL
        SELECT format('its partition %s is not a chunk that Thermocline has made, so its rows would not be copied',
                      f.partition::regclass)
        FROM thermocline._foreign_partitions(p_table) f
        UNION ALL
        SELECT 'it is unlogged' FROM pg_class WHERE oid = p_table AND relpersistence <> 'p'
        UNION ALL
        SELECT format('its partition %s is unlogged', i.inhrelid::regclass)
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = p_table AND c.relpersistence <> 'p'
    ) found
$$;

COMMENT ON FUNCTION thermocline._reasons_against_sync(oid) IS
    'What speaks against syncing a table to the lake; empty when nothing does.';
