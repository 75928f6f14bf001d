-- Statements that make the views of a table anew, each with its options, owner, rights, triggers and comments.
CREATE OR REPLACE FUNCTION lakets._views_anew(p_table oid) RETURNS TABLE (statement text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH v AS (
        SELECT f.depth, c.*, format('%I.%I', n.nspname, c.relname) AS full_name
        FROM lakets._views_of(p_table) f JOIN pg_class c ON c.oid = f.view_oid JOIN pg_namespace n ON n.oid = c.relnamespace
    ), statements (depth, full_name, step, statement) AS (
        SELECT v.depth, v.full_name, 1,
               format('CREATE VIEW %s (%s)%s AS %s', v.full_name,
                      (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
                       FROM pg_attribute a WHERE a.attrelid = v.oid AND a.attnum > 0),
                      coalesce(' WITH (' || array_to_string(v.reloptions, ', ') || ')', ''), pg_get_viewdef(v.oid))
        FROM v
        UNION ALL
        SELECT v.depth, v.full_name, 2, format('ALTER VIEW %s ALTER COLUMN %I SET DEFAULT %s', v.full_name, a.attname,
                                               pg_get_expr(d.adbin, d.adrelid))
        FROM v JOIN pg_attrdef d ON d.adrelid = v.oid JOIN pg_attribute a ON a.attrelid = v.oid AND a.attnum = d.adnum
        UNION ALL
        SELECT v.depth, v.full_name, 3, g.statement FROM v, lakets._grants_of(v.oid) g
        UNION ALL
        SELECT v.depth, v.full_name, 4, t.statement FROM v, lakets._triggers_of(v.oid) t
        UNION ALL
        SELECT v.depth, v.full_name, 5, c.statement FROM v, lakets._comments_of(v.oid) c
        UNION ALL
        SELECT v.depth, v.full_name, 6, format('ALTER VIEW %s OWNER TO %I', v.full_name, pg_get_userbyid(v.relowner)) FROM v
    )
    SELECT s.statement FROM statements s ORDER BY s.depth, s.full_name, s.step, s.statement
$$;

COMMENT ON FUNCTION lakets._views_anew(oid) IS
    'Statements that make the views of a table anew, in an order in which they can be made.';
