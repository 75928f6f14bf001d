-- Sequences that belong to columns of a table (serial) pass to its successor, so that dropping the table leaves them;
-- identity columns of the successor go on where the old ones stopped, with sequences that have taken over the names of the old ones.
-- Rights and comments on those are given after the conversion.
CREATE OR REPLACE FUNCTION lakets._move_sequences(p_from oid, p_to oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_sequence  oid;
    v_column    name;
    v_kind      "char";
    v_last      bigint;
    v_called    boolean;
    v_name      name;
    v_successor oid;
BEGIN
    FOR v_sequence, v_column, v_kind IN
        SELECT d.objid, a.attname, d.deptype
        FROM pg_depend d
        JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
        JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
        WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
          AND d.refobjid = p_from AND d.deptype IN ('a', 'i')
    LOOP
        IF v_kind = 'a' THEN
            EXECUTE format('ALTER SEQUENCE %s OWNED BY %s.%I', v_sequence::regclass, p_to::regclass, v_column);
        ELSE
            EXECUTE format('SELECT last_value, is_called FROM %s', v_sequence::regclass) INTO v_last, v_called;
            v_name := (SELECT relname FROM pg_class WHERE oid = v_sequence);
            v_successor := pg_get_serial_sequence(p_to::regclass::text, v_column)::regclass;
            PERFORM setval(v_successor, v_last, v_called);
            PERFORM thermocline._revoke_defaults(v_successor);
            EXECUTE format('ALTER SEQUENCE %s RENAME TO %I', v_sequence::regclass, 'thermocline_converting_' || v_sequence);
            EXECUTE format('ALTER SEQUENCE %s RENAME TO %I', v_successor::regclass, v_name);
        END IF;
    END LOOP;
END
$$;

COMMENT ON FUNCTION lakets._move_sequences(oid, oid) IS
    'Hands the sequences of one table''s columns to the columns of the same name of another.';
