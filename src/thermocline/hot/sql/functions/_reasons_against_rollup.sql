-- What speaks against keeping a query as a RollUp, read from the rule of a view that was made of it: every reason at once. Only what
-- is proven to be an aggregate of one table, group by group, passes.
CREATE OR REPLACE FUNCTION thermocline._reasons_against_rollup(p_view oid) RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH rule AS (
        SELECT oid, ev_action::text AS tree FROM pg_rewrite WHERE ev_class = p_view
    ), casts AS (  -- by way of text, of something whose type is told at once
        SELECT m[1]::oid AS type FROM rule, regexp_matches(
            tree, '\{COERCEVIAIO :arg \{(?:VAR :varno \S+ :varattno \S+ :vartype|FUNCEXPR :funcid \d+ :funcresulttype|CONST :consttype'
                  '|OPEXPR :opno \d+ :opfuncid \d+ :opresulttype|AGGREF :aggfnoid \d+ :aggtype|CASE(?:EXPR)? :casetype'
                  '|MINMAX(?:EXPR)? :minmaxtype|COALESCE(?:EXPR)? :coalescetype|CASETESTEXPR :typeId) (\d+)', 'g') m
    ), called AS (
        SELECT DISTINCT m[1]::oid AS function FROM rule, regexp_matches(tree, ':(?:funcid|aggfnoid) (\d+)', 'g') m
        UNION
        SELECT o.oprcode FROM rule, regexp_matches(tree, ':opno (\d+)', 'g') m JOIN pg_operator o ON o.oid = m[1]::oid
        UNION  -- comparisons of rows
        SELECT o.oprcode FROM rule, regexp_matches(tree, ':opnos \(o ([\d ]+)\)', 'g') m, regexp_split_to_table(m[1], ' ') s
        JOIN pg_operator o ON o.oid = s::oid
        UNION  -- what writes the one type, and what reads the other
        SELECT t.typoutput FROM casts c JOIN pg_type t ON t.oid = c.type
        UNION
        SELECT t.typinput FROM rule, regexp_matches(tree, ':resulttype (\d+) :resultcollid \d+ :coerceformat', 'g') m
        JOIN pg_type t ON t.oid = m[1]::oid
    ), within AS (  -- an aggregate is declared immutable whatever its functions are
        SELECT c.function FROM called c
        UNION
        SELECT f.function FROM called c JOIN pg_aggregate a ON a.aggfnoid = c.function,
        LATERAL (VALUES (a.aggtransfn), (a.aggfinalfn), (a.aggcombinefn)) f (function) WHERE f.function <> 0
    ), sources AS (
        SELECT DISTINCT d.refobjid AS source FROM rule r
        JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                        AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> p_view
    )
    SELECT coalesce(array_agg(x.reason), '{}')
    FROM (
        SELECT y.reason FROM rule r, LATERAL (VALUES
            (r.tree NOT LIKE '%:hasAggs true%' OR r.tree LIKE '%:groupClause <>%',
             'it does not aggregate with GROUP BY'),
            (r.tree LIKE '%{QUERY%{QUERY%', 'it has a sub-query or a WITH'),
            (r.tree LIKE '%{JOINEXPR%' OR r.tree LIKE '%{RANGETBLREF%{RANGETBLREF%' OR r.tree NOT LIKE '%{RANGETBLREF%'
             OR (SELECT count(*) FROM sources) <> 1,
             'it does not read exactly one table: changes of a second one would not be noticed'),
            (r.tree NOT LIKE '%:hasWindowFuncs false%', 'it has a window function'),
            (r.tree NOT LIKE '%:groupingSets <>%', 'it has grouping sets'),
            (r.tree NOT LIKE '%:distinctClause <>%', 'it has DISTINCT'),
            (r.tree NOT LIKE '%:limitCount <>%' OR r.tree NOT LIKE '%:limitOffset <>%', 'it has LIMIT or OFFSET'),
            (r.tree NOT LIKE '%:setOperations <>%', 'it has UNION or the like'),
            (r.tree NOT LIKE '%:hasTargetSRFs false%', 'it returns several rows for a group'),
            (r.tree LIKE '%{TABLESAMPLECLAUSE%', 'it reads a sample'),
            (r.tree LIKE '%:resjunk true%', 'it groups or orders by something that it does not select'),
            (r.tree LIKE '%{SQLVALUEFUNCTION%', 'it asks for the time or the user of now'),
            ((SELECT count(*) FROM regexp_matches(r.tree, '\{COERCEVIAIO ', 'g'))
             <> (SELECT count(*) FROM casts),
             'it casts something by way of text that is not known to come out the same each time')
        ) y (so, reason) WHERE y.so
        UNION ALL
        (SELECT format('it calls %s, whose result is not the same at every moment and in every session', c.function::regprocedure)
         FROM within c JOIN pg_proc p ON p.oid = c.function
         WHERE p.provolatile <> 'i' ORDER BY p.proname)
    ) x
$$;

COMMENT ON FUNCTION thermocline._reasons_against_rollup(oid) IS
    'What speaks against keeping the query of a view as a RollUp; empty when nothing does.';
