-- The columns that a view's one query groups by, in order, and the column of the source that each is, if it is one as it stands.
CREATE OR REPLACE FUNCTION thermocline._group_columns(p_view oid) RETURNS TABLE (at int, name text, origin text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH rule AS (
        SELECT ev_action::text AS tree FROM pg_rewrite WHERE ev_class = p_view
    ), entries AS (
        SELECT row_number() OVER (ORDER BY n) AS at, m[2]::int AS ref, m[3]::oid AS source, m[4]::int AS origin
        FROM rule, regexp_matches(
            tree, ':resname ((?:\\.|[^\s\\])+) :ressortgroupref (\d+) :resorigtbl (\d+) :resorigcol (\d+) :resjunk false', 'g')
            WITH ORDINALITY f (m, n)
        WHERE m[1] <> '<>'  -- those without a name are arguments of aggregates
    ), grouped AS (
        SELECT m[1]::int AS ref FROM rule,
            regexp_matches((regexp_match(tree, ':groupClause \(((?:\{SORTGROUPCLAUSE [^}]*\}\s*)+)\)'))[1],
                           ':tleSortGroupRef (\d+)', 'g') m
    )
    SELECT e.at::int, a.attname::text, s.attname::text
    FROM entries e
    JOIN grouped g USING (ref)
    JOIN pg_attribute a ON a.attrelid = p_view AND a.attnum = e.at
    LEFT JOIN pg_attribute s ON s.attrelid = e.source AND s.attnum = e.origin
    ORDER BY e.at
$$;

COMMENT ON FUNCTION thermocline._group_columns(oid) IS 'The columns that a view groups by.';
