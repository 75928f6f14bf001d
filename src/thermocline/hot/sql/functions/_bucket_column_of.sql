-- The leftmost column of a query that has a type of time; NULL if it has none.
CREATE OR REPLACE FUNCTION thermocline._bucket_column_of(p_query text, p_path text) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_view   oid := thermocline._as_view(p_query, p_path);
    v_column text;
BEGIN
    SELECT a.attname INTO v_column FROM pg_attribute a
    WHERE a.attrelid = v_view AND a.attnum > 0
      AND a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype)
    ORDER BY a.attnum LIMIT 1;
    DROP VIEW pg_temp.thermocline_query;
    RETURN v_column;
END
$$;

COMMENT ON FUNCTION thermocline._bucket_column_of(text, text) IS
    'The first column of time of a query whose names are looked up along p_path.';
