-- The range of time of a partition, from its bound; NULL for a default partition and for bounds that are no moments.
CREATE OR REPLACE FUNCTION thermocline._range_of(p_partition oid) RETURNS tstzrange
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
    SELECT tstzrange(f.parts[1]::timestamptz, f.parts[2]::timestamptz)
    FROM pg_class c,
         regexp_match(pg_get_expr(c.relpartbound, c.oid), '^FOR VALUES FROM \(''([^'']+)''\) TO \(''([^'']+)''\)$') f (parts)
    WHERE c.oid = p_partition AND f.parts IS NOT NULL
$$;

COMMENT ON FUNCTION thermocline._range_of(oid) IS 'The range of time that a partition is for.';
