-- The views that depend on a table, directly or through one another; a view comes after those that it depends on.
CREATE OR REPLACE FUNCTION lakets._views_of(p_table oid) RETURNS TABLE (view_oid oid, depth int, kind "char")
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE found AS (
        SELECT p_table AS oid, 0 AS depth
        UNION
        SELECT w.ev_class, f.depth + 1
        FROM found f
        JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = f.oid AND d.classid = 'pg_rewrite'::regclass
        JOIN pg_rewrite w ON w.oid = d.objid AND w.ev_class <> f.oid
    )
    SELECT f.oid, max(f.depth)::int, c.relkind
    FROM found f JOIN pg_class c ON c.oid = f.oid
    WHERE f.oid <> p_table
    GROUP BY f.oid, c.relkind
$$;

COMMENT ON FUNCTION lakets._views_of(oid) IS
    'Views that depend on a table, directly or through one another, with how far they are from it.';
