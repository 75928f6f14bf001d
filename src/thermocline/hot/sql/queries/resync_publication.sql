-- The publication, made anew with every table that is synced: whatever became of the old one.
DO $$
DECLARE
    v_table regclass;
BEGIN
    DROP PUBLICATION IF EXISTS thermocline;
    PERFORM thermocline._make_publication();
    FOR v_table IN
        SELECT c.oid::regclass FROM thermocline.synced_table s
        JOIN pg_catalog.pg_class c ON c.oid = coalesce(s.shadow_oid, s.table_oid)
        WHERE s.status <> 'TERMINATED'
    LOOP
        EXECUTE pg_catalog.format('ALTER PUBLICATION thermocline ADD TABLE %s', v_table);
    END LOOP;
    UPDATE thermocline.synced_table s SET published_as = p.entry
    FROM thermocline.published p WHERE p.relation = coalesce(s.shadow_oid, s.table_oid) AND s.status <> 'TERMINATED';
END
$$;
