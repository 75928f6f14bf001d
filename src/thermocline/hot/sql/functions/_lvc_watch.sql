-- Puts the triggers of the last-value cache on a table or a chunk. A statement on the table fires the table's own, a
-- statement on a chunk the chunk's, so both need them. They fire in a session with session_replication_role = replica too:
-- its rows are in the table like any other's.
CREATE OR REPLACE FUNCTION lakets._lvc_watch(p_relation oid) RETURNS void
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
        v_name := 'trg_lakets_lvc' || CASE v_event WHEN 'INSERT' THEN '' ELSE '_' || lower(v_event) END;
        EXECUTE format('CREATE OR REPLACE TRIGGER %I AFTER %s ON %s %s FOR EACH STATEMENT'
                       ' EXECUTE FUNCTION lakets._lvc_changed()', v_name, v_event, p_relation::regclass, v_rows);
        EXECUTE format('ALTER TABLE ONLY %s ENABLE ALWAYS TRIGGER %I', p_relation::regclass, v_name);
    END LOOP;
END
$$;

COMMENT ON FUNCTION lakets._lvc_watch(oid) IS 'Puts the triggers of the last-value cache on a table or a chunk.';
