-- Foreign keys of the ChronoTable, put on a loaded table before it is attached: with them there, attaching looks at no row. They are
-- checked with locks that let writers of the other table go on.
CREATE OR REPLACE FUNCTION thermocline._bind_staged(p_staged oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_key record;
BEGIN
    FOR v_key IN
        SELECT k.conname, pg_get_constraintdef(k.oid) AS definition
        FROM thermocline.rehydration r
        JOIN lakets._chronotable_registry t ON t.id = r.chronotable_id
        JOIN pg_constraint k ON k.conrelid = t.table_oid AND k.contype = 'f' AND k.conparentid = 0
        WHERE r.staged_oid = p_staged
    LOOP
        PERFORM thermocline._give_way(format('ALTER TABLE %s ADD CONSTRAINT %I %s NOT VALID', p_staged::regclass, v_key.conname,
                                             regexp_replace(v_key.definition, ' NOT VALID$', '')));
        EXECUTE format('ALTER TABLE %s VALIDATE CONSTRAINT %I', p_staged::regclass, v_key.conname);
    END LOOP;
END
$$;

COMMENT ON FUNCTION thermocline._bind_staged(oid) IS 'Puts the foreign keys of its ChronoTable on a table that is to be attached.';
