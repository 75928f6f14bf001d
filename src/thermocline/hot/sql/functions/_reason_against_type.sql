-- Why values of a type cannot be kept in the lake; NULL when they can. A type without a place of its own there is kept as the text that
-- PostgreSQL writes, so that text must depend on nothing but the value: not on the names of other objects, on a setting, or on the
-- fields that a composite type happens to have now. Elements of arrays, bounds of ranges and bases of domains are looked at too.
CREATE OR REPLACE FUNCTION thermocline._reason_against_type(p_type oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE parts (type) AS (
        SELECT p_type
        UNION
        SELECT u.part
        FROM parts p
        JOIN pg_type t ON t.oid = p.type
        LEFT JOIN pg_range r ON r.rngtypid = t.oid OR r.rngmultitypid = t.oid,
             unnest(ARRAY[t.typbasetype, r.rngsubtype, CASE WHEN t.typcategory = 'A' THEN t.typelem END]) u (part)
        WHERE u.part <> 0
    )
    SELECT CASE WHEN t.typtype = 'c' THEN 'is composite: its fields may change under the values'
                WHEN t.typtype = 'p' THEN 'is no type of values'
                ELSE 'reads differently as other objects or settings change' END
    FROM parts p JOIN pg_type t ON t.oid = p.type
    WHERE t.typtype IN ('c', 'p') OR t.oid IN ('money'::regtype, 'aclitem'::regtype)
       OR (t.typnamespace = 'pg_catalog'::regnamespace AND t.typname LIKE 'reg%')
    LIMIT 1
$$;

COMMENT ON FUNCTION thermocline._reason_against_type(oid) IS 'Why values of a type cannot be kept in the lake; NULL when they can.';
