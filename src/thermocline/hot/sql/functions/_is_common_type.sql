-- Whether values of a type can be compared, sorted and hashed by PostgreSQL itself, and come out of JSON as they went in.
CREATE OR REPLACE FUNCTION thermocline._is_common_type(p_type oid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT p_type = ANY ('{bool, int2, int4, int8, float4, float8, numeric, text, varchar, bpchar, uuid, date, timestamp, timestamptz,
                           inet}'::regtype[])
           OR EXISTS (SELECT FROM pg_type t WHERE t.oid = p_type AND t.typtype = 'e')
$$;

COMMENT ON FUNCTION thermocline._is_common_type(oid) IS 'Whether a type is one of those that can be compared in every way.';
