-- A point in time as the text of a partition bound for a column of this type; times without a zone are in UTC.
CREATE OR REPLACE FUNCTION lakets._bound_of(p_time timestamptz, p_type text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
    SELECT CASE p_type
               WHEN 'date' THEN (p_time AT TIME ZONE 'UTC')::date::text
               WHEN 'timestamp without time zone' THEN (p_time AT TIME ZONE 'UTC')::text
               ELSE p_time::text
           END
$$;

COMMENT ON FUNCTION lakets._bound_of(timestamptz, text) IS
    'Text of a partition bound at p_time for a time column of type p_type.';
