-- Puts triggers on a table or a chunk that call a function once for each statement that changes it. A statement on the table fires the
-- table's own, a statement on a chunk the chunk's, so both need them. They fire in a session with session_replication_role = replica too:
-- its rows are in the table like any other's. The one of INSERT has the name given, the others the event behind it.
CREATE OR REPLACE FUNCTION thermocline._watch(p_relation oid, p_name text, p_call text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_event text;
    v_rows  text;
    v_name  text;
BEGIN
    FOR v_event, v_rows IN VALUES ('INSERT', 'REFERENCING NEW TABLE AS new_rows'),
                                  ('UPDATE', 'REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows'),
                                  ('DELETE', 'REFERENCING OLD TABLE AS old_rows'),
                                  ('TRUNCATE', '')
    LOOP
        v_name := p_name || CASE v_event WHEN 'INSERT' THEN '' ELSE '_' || lower(v_event) END;
        EXECUTE format('CREATE OR REPLACE TRIGGER %I AFTER %s ON %s %s FOR EACH STATEMENT EXECUTE FUNCTION %s',
                       v_name, v_event, p_relation::regclass, v_rows, p_call);
        EXECUTE format('ALTER TABLE ONLY %s ENABLE ALWAYS TRIGGER %I', p_relation::regclass, v_name);
    END LOOP;
END
$$;

COMMENT ON FUNCTION thermocline._watch(oid, text, text) IS 'Puts triggers of statements that call a function on a table or a chunk.';
