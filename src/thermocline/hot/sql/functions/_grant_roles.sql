-- The two roles that people are given, and what they may do. lakets_read sees everything of ours and changes nothing.
-- lakets_admin may call every function, for tables that it owns or whose owner it is a member of. Run at every install; false when the
-- roles are not there and whoever installs may not make them.
CREATE OR REPLACE FUNCTION thermocline._grant_roles() RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_role text;
BEGIN
    FOREACH v_role IN ARRAY ARRAY['lakets_read', 'lakets_admin'] LOOP
        BEGIN
            IF to_regrole(v_role) IS NULL THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', v_role);
                EXECUTE format('GRANT %I TO %I', v_role, current_user);
            END IF;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN  -- roles are the server's: another database made it just now
                NULL;
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'the role % is not there, and % may not make it', v_role, current_user
                    USING HINT = 'A superuser makes both with: SELECT thermocline._grant_roles();';
                RETURN false;
        END;
    END LOOP;
    IF NOT pg_has_role('lakets_admin', 'lakets_read', 'USAGE') THEN
        BEGIN
            GRANT lakets_read TO lakets_admin;
        EXCEPTION
            WHEN insufficient_privilege OR unique_violation THEN  -- whoever made them has seen to it
                NULL;
        END;
    END IF;

    GRANT USAGE ON SCHEMA lakets, thermocline, wal2delta, thermocline_lake, lakets_cdf TO lakets_read, lakets_admin;
    GRANT SELECT ON ALL TABLES IN SCHEMA lakets, thermocline, wal2delta, thermocline_lake TO lakets_read, lakets_admin;
    REVOKE ALL ON thermocline.seal FROM lakets_read, lakets_admin;
    GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA lakets TO lakets_admin;
    GRANT INSERT, UPDATE, DELETE ON thermocline.synced_table, thermocline.chunk_copy, thermocline.detaching,
        thermocline.dropped_range, thermocline.receipt, thermocline.schedule, thermocline.mirror_doubt, thermocline.mended_chunk,
        thermocline.rehydration, thermocline.late_time, thermocline.unproven TO lakets_admin;
    -- Not who and when: those are what they are.
    GRANT INSERT (action, object, chronotable_id, range_start, range_end, row_count, bytes, forced, reason, evidence)
        ON thermocline.audit TO lakets_admin;
    GRANT USAGE ON ALL SEQUENCES IN SCHEMA lakets, thermocline TO lakets_admin;
    GRANT EXECUTE ON FUNCTION thermocline._tell(jsonb), thermocline._chunk_truncated(), thermocline._rollup_truncated(),
        thermocline._mirrored(), thermocline._make_shadow(int), thermocline._drop_shadow(int) TO lakets_admin;
    GRANT EXECUTE ON FUNCTION thermocline._cached_series(int) TO lakets_read, lakets_admin;
    BEGIN
        EXECUTE format('GRANT CREATE ON DATABASE %I TO lakets_admin', current_database());  -- for the publication
    EXCEPTION
        WHEN insufficient_privilege THEN
            RAISE NOTICE 'lakets_admin may not make publications in %: only its owner can allow that', current_database();
    END;
    RETURN true;
END
$$;

COMMENT ON FUNCTION thermocline._grant_roles() IS
    'Makes the roles lakets_read and lakets_admin and gives them their rights; returns whether they are there.';
