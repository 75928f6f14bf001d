-- The publication, made anew if it is gone, with every table that is synced.
DO $$
DECLARE
    v_table regclass;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname = 'thermocline') THEN
        CREATE PUBLICATION thermocline WITH (publish_via_partition_root = true);
    END IF;
    FOR v_table IN
        SELECT s.table_oid::regclass FROM thermocline.synced_table s JOIN pg_catalog.pg_class c ON c.oid = s.table_oid
        WHERE s.status <> 'TERMINATED' AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
            WHERE p.pubname = 'thermocline' AND r.prrelid = s.table_oid)
    LOOP
        EXECUTE pg_catalog.format('ALTER PUBLICATION thermocline ADD TABLE %s', v_table);
    END LOOP;
END
$$;
