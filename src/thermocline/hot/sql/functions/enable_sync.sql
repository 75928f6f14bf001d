-- Sends the changes of a ChronoTable or of a RollUp to the lake, and what is in it already. Nothing but a registration: the feed
-- does the work. The table joins the publication in this transaction; the feed copies its chunks once every transaction
-- that was open then has ended.
CREATE OR REPLACE FUNCTION lakets.enable_sync(
    p_table_name  text,
    p_schema_name text DEFAULT 'public',
    p_mode        text DEFAULT 'direct'
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_target  record;
    v_reasons text[];
BEGIN
    SELECT * INTO STRICT v_target FROM thermocline._sync_target(p_table_name, p_schema_name);
    IF p_mode IS DISTINCT FROM 'direct' THEN
        RAISE EXCEPTION 'cannot sync % in the mode %', v_target.title, coalesce(quote_literal(p_mode), 'NULL')
            USING HINT = 'There is one mode so far: direct.';
    END IF;
    IF current_setting('wal_level') <> 'logical' THEN
        RAISE EXCEPTION 'cannot sync %: wal_level is %', v_target.title, current_setting('wal_level')
            USING HINT = 'ALTER SYSTEM SET wal_level = logical; then restart the server.';
    END IF;
    -- One at a time: the publication is shared, and two callers may both be about to make it.
    PERFORM pg_advisory_xact_lock(hashtextextended('thermocline publication', 0));
    PERFORM FROM lakets._chronotable_registry WHERE id = v_target.id FOR UPDATE;
    IF EXISTS (SELECT FROM thermocline.synced_table WHERE chronotable_id = v_target.id AND status <> 'TERMINATED') THEN
        RAISE NOTICE '% is synced already, left as it is', v_target.title;
        RETURN;
    END IF;
    IF v_target.id > 0 THEN
        PERFORM lakets._reconcile(v_target.id);
    ELSE
        PERFORM thermocline._prepare_rollup(v_target.table_oid);
    END IF;
    v_reasons := thermocline._reasons_against_sync(v_target.table_oid);
    IF cardinality(v_reasons) > 0 THEN
        RAISE EXCEPTION 'cannot sync %: %', v_target.title, array_to_string(v_reasons, '; ')
            USING HINT = 'Nothing was changed. Mend what is listed and call again.';
    END IF;

    IF EXISTS (SELECT FROM pg_publication
               WHERE pubname = 'thermocline' AND NOT (pubviaroot AND pubinsert AND pubupdate AND pubdelete)) THEN
        RAISE EXCEPTION 'cannot sync %: the publication thermocline does not publish everything', v_target.title
            USING HINT = 'Drop it if it is not ours; `thermocline feed resync` makes it anew otherwise.';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'thermocline') THEN
        CREATE PUBLICATION thermocline WITH (publish_via_partition_root = true);
        IF to_regrole('lakets_admin') IS NOT NULL AND pg_has_role('lakets_admin', 'MEMBER') THEN
            ALTER PUBLICATION thermocline OWNER TO lakets_admin;  -- all of them may add tables
        END IF;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
                   WHERE p.pubname = 'thermocline' AND r.prrelid = v_target.table_oid) THEN
        EXECUTE format('ALTER PUBLICATION thermocline ADD TABLE %s', v_target.table_oid::regclass);
    END IF;
    IF EXISTS (SELECT FROM thermocline.synced_table WHERE lake_table = v_target.lake_table AND chronotable_id <> v_target.id) THEN
        RAISE EXCEPTION 'cannot sync %: % in the lake is the history of another table', v_target.title, v_target.lake_table
            USING HINT = 'Rename this table, or the one that had its name before.';
    END IF;
    INSERT INTO thermocline.synced_table (chronotable_id, table_oid, mode, lake_table)
    VALUES (v_target.id, v_target.table_oid, p_mode, v_target.lake_table)
    ON CONFLICT (chronotable_id) DO UPDATE
        SET table_oid = excluded.table_oid, mode = excluded.mode, status = 'JOINING', reason = NULL, waits_for = NULL,
            streams_from = NULL, committed_lsn = NULL, complete_lsn = NULL, complete_at = NULL, marker_lsn = NULL, lake_snapshot = NULL, joined_at = now();
    UPDATE lakets._chronotable_registry SET sync_enabled = true WHERE id = v_target.id;
    UPDATE lakets._rollup_registry SET sync_enabled = true WHERE id = -v_target.id;
    IF NOT thermocline._feed_runs() THEN
        RAISE WARNING 'no feed is running, so nothing of % reaches the lake yet', v_target.title
            USING HINT = '`thermocline feed` runs it.';
    END IF;
END
$$;

COMMENT ON FUNCTION lakets.enable_sync(text, text, text) IS
    'Sends every change of a ChronoTable or a RollUp, and the rows that it has already, to its history table in the lake.';
