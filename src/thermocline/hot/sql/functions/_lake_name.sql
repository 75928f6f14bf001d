-- The name of a schema or a table in the lake: letters, digits and underscores, which every engine and store takes.
-- A name that has anything else is told apart by a hash.
CREATE OR REPLACE FUNCTION thermocline._lake_name(p_name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE
        WHEN p_name ~ '^[a-z0-9_]+$' THEN p_name
        ELSE regexp_replace(lower(p_name), '[^a-z0-9_]', '_', 'g') || '_' || left(md5(p_name), 8)
    END
$$;

COMMENT ON FUNCTION thermocline._lake_name(text) IS 'Name that a schema or table of this name has in the lake.';
