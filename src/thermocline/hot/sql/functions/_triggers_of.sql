-- The triggers of a relation as statements that make them anew, in the state in which they are.
CREATE OR REPLACE FUNCTION lakets._triggers_of(p_relation oid) RETURNS TABLE (statement text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.statement
    FROM pg_trigger t,
         LATERAL (VALUES
             (1, pg_get_triggerdef(t.oid)),
             (2, format('ALTER TABLE %s %s TRIGGER %I', t.tgrelid::regclass,
                        CASE t.tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END,
                        t.tgname)),
             (3, format('COMMENT ON TRIGGER %I ON %s IS %L', t.tgname, t.tgrelid::regclass,
                        obj_description(t.oid, 'pg_trigger')))
         ) s (step, statement)
    WHERE t.tgrelid = p_relation AND NOT t.tgisinternal
      AND (s.step = 1 OR s.step = 2 AND t.tgenabled <> 'O'
           OR s.step = 3 AND obj_description(t.oid, 'pg_trigger') IS NOT NULL)
    ORDER BY t.tgname, s.step
$$;

COMMENT ON FUNCTION lakets._triggers_of(oid) IS
    'Triggers of a relation, as statements that make them anew.';
