-- The publication that the feed reads, made if it is not there. From PostgreSQL 18 on it has stored generated columns too: there a table
-- whose whole rows are its identity can only be written to if they are published.
CREATE OR REPLACE FUNCTION thermocline._make_publication() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'thermocline') THEN
        CREATE PUBLICATION thermocline WITH (publish_via_partition_root = true);
        IF to_regrole('lakets_admin') IS NOT NULL AND pg_has_role('lakets_admin', 'MEMBER')
           AND has_database_privilege('lakets_admin', current_database(), 'CREATE') THEN
            ALTER PUBLICATION thermocline OWNER TO lakets_admin;  -- all of them may add tables
        END IF;
    END IF;
    IF EXISTS (SELECT FROM pg_publication p WHERE p.pubname = 'thermocline' AND to_jsonb(p) ->> 'pubgencols' = 'n') THEN
        EXECUTE 'ALTER PUBLICATION thermocline SET (publish_generated_columns = stored)';
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._make_publication() IS 'Makes the publication that the feed reads, if it is not there.';
