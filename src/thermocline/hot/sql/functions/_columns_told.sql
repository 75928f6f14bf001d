-- The columns of a table in a form that is compared at every write: number, name, type and its length of each.
CREATE OR REPLACE FUNCTION thermocline._columns_told(p_table oid) RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT array_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod) ORDER BY a.attnum)
    FROM pg_attribute a WHERE a.attrelid = p_table AND a.attnum > 0 AND NOT a.attisdropped
$$;

COMMENT ON FUNCTION thermocline._columns_told(oid) IS 'What the columns of a table are, to see that they have changed.';
