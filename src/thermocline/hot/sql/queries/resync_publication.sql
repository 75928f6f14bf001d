-- The publication, made anew with every table that is synced: whatever became of the old one.
DO $$
DECLARE
    v_table regclass;
BEGIN
    DROP PUBLICATION IF EXISTS thermocline;
    CREATE PUBLICATION thermocline WITH (publish_via_partition_root = true);
    IF pg_catalog.to_regrole('lakets_admin') IS NOT NULL AND pg_catalog.pg_has_role('lakets_admin', 'MEMBER') THEN
        ALTER PUBLICATION thermocline OWNER TO lakets_admin;
    END IF;
    FOR v_table IN
        SELECT s.table_oid::regclass FROM thermocline.synced_table s JOIN pg_catalog.pg_class c ON c.oid = s.table_oid
        WHERE s.status <> 'TERMINATED'
    LOOP
        EXECUTE pg_catalog.format('ALTER PUBLICATION thermocline ADD TABLE %s', v_table);
    END LOOP;
END
$$;
