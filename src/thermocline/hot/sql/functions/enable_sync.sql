-- Sends the changes of a ChronoTable or of a RollUp to the lake, and what is in it already. Nothing but a registration: the feed
-- does the work. The table joins the publication in this transaction; the feed copies its chunks once every transaction
-- that was open then has ended. In shadow mode an unpartitioned mirror joins in its place, kept by triggers. A table that is synced in the
-- other mode is switched over: it leaves and joins in one transaction, and all that is resident is copied anew. It then has another history,
-- and the old one stays in the lake; unless chunks have left PostgreSQL already, whose rows only the old one has: then that goes on.
CREATE OR REPLACE FUNCTION lakets.enable_sync(
    p_table_name  text,
    p_schema_name text DEFAULT 'public',
    p_mode        text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_target    record;
    v_before    thermocline.synced_table;
    v_mode      text;
    v_lake      text;
    v_reasons   text[];
    v_generated text;
    v_other     oid;
BEGIN
    SELECT * INTO STRICT v_target FROM thermocline._sync_target(p_table_name, p_schema_name);
    IF current_setting('wal_level') <> 'logical' THEN
        RAISE EXCEPTION 'cannot sync %: wal_level is %', v_target.title, current_setting('wal_level')
            USING HINT = 'ALTER SYSTEM SET wal_level = logical; then restart the server.';
    END IF;
    -- One at a time: the publication is shared, and two callers may both be about to make it.
    PERFORM pg_advisory_xact_lock(hashtextextended('thermocline publication', 0));
    PERFORM FROM lakets._chronotable_registry WHERE id = v_target.id FOR UPDATE;
    SELECT * INTO v_before FROM thermocline.synced_table WHERE chronotable_id = v_target.id;
    v_mode := thermocline._sync_mode(p_mode, CASE WHEN v_before.status <> 'TERMINATED' THEN v_before.mode END);
    IF v_before.status <> 'TERMINATED' AND v_before.mode = v_mode THEN
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

    IF v_mode <> 'direct' AND (EXISTS (SELECT FROM lakets._chronotable_registry r WHERE r.id = v_target.id AND r.late = 'lake')
                               OR EXISTS (SELECT FROM thermocline.trap t WHERE t.chronotable_id = v_target.id AND t.size_bytes > 0)) THEN
        RAISE EXCEPTION 'cannot sync % in % mode: it takes late rows, which only direct mode does', v_target.title, v_mode
            USING HINT = format('SELECT lakets.set_late_rows(%L, ''reject'', %L); and `thermocline late` first.', p_table_name, p_schema_name);
    END IF;
    IF EXISTS (SELECT FROM pg_publication
               WHERE pubname = 'thermocline' AND NOT (pubviaroot AND pubinsert AND pubupdate AND pubdelete)) THEN
        RAISE EXCEPTION 'cannot sync %: the publication thermocline does not publish everything', v_target.title
            USING HINT = 'Drop it if it is not ours; `thermocline feed resync --yes` makes it anew otherwise.';
    END IF;
    PERFORM thermocline._make_publication();
    v_lake := CASE
        WHEN v_before.mode = v_mode OR EXISTS (SELECT FROM thermocline.dropped_range d
                                               WHERE d.chronotable_id = v_before.chronotable_id AND d.in_lake)
        THEN v_before.lake_table
        WHEN v_mode = 'shadow' THEN v_target.shadow_lake_table ELSE v_target.lake_table END;
    SELECT y.table_oid INTO v_other FROM thermocline.synced_table y WHERE y.lake_table = v_lake AND y.chronotable_id <> v_target.id;
    IF FOUND THEN
        RAISE EXCEPTION 'cannot sync %: % in the lake is the history of another table, %', v_target.title, v_lake, v_other::regclass
            USING HINT = 'Nothing was changed. Rename this table, or sync it in the other mode: its history has another name then.';
    END IF;
    IF thermocline._leave_stream(v_target.id, 'sync was switched to another mode') THEN
        RAISE NOTICE '% is switched from % to % mode; its history is % from now on', v_target.title, v_before.mode, v_mode, v_lake;
    END IF;
    INSERT INTO thermocline.synced_table (chronotable_id, table_oid, mode, lake_table)
    VALUES (v_target.id, v_target.table_oid, v_mode, v_lake)
    ON CONFLICT (chronotable_id) DO UPDATE
        SET table_oid = excluded.table_oid, mode = excluded.mode, lake_table = excluded.lake_table, status = 'JOINING', reason = NULL,
            waits_for = NULL, streams_from = NULL, committed_lsn = NULL, current_at = NULL, complete_lsn = NULL, complete_at = NULL,
            marker_lsn = NULL, lake_snapshot = NULL, joined_at = clock_timestamp();
    IF v_mode = 'shadow' THEN
        PERFORM thermocline._keep_writers_off(v_target.table_oid, 'SHARE ROW EXCLUSIVE', format('cannot sync %s', v_target.title));
        PERFORM thermocline._make_shadow(v_target.id);
        PERFORM thermocline._watch(w.relation, 'trg_lakets_sync', format('thermocline._mirrored(%L)', v_target.id))
        FROM (SELECT v_target.table_oid AS relation
              UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = v_target.table_oid ORDER BY 1) w;
    ELSIF NOT EXISTS (SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
                      WHERE p.pubname = 'thermocline' AND r.prrelid = v_target.table_oid) THEN
        EXECUTE format('ALTER PUBLICATION thermocline ADD TABLE %s', v_target.table_oid::regclass);
    END IF;
    UPDATE thermocline.synced_table s SET published_as = p.entry
    FROM thermocline.published p WHERE s.chronotable_id = v_target.id AND p.relation = coalesce(s.shadow_oid, s.table_oid);
    SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO v_generated
    FROM pg_attribute a WHERE a.attrelid = v_target.table_oid AND a.attgenerated <> '' AND NOT a.attisdropped;
    IF v_generated IS NOT NULL AND current_setting('server_version_num')::int < 180000 THEN
        RAISE NOTICE '%: its generated columns are left out of the lake: %', v_target.title, v_generated
            USING HINT = 'PostgreSQL sends them from version 18 on; whoever reads the lake computes them from the others.';
    END IF;
    UPDATE lakets._chronotable_registry SET sync_enabled = true WHERE id = v_target.id;
    UPDATE lakets._rollup_registry SET sync_enabled = true WHERE id = -v_target.id;
    IF NOT thermocline._feed_runs() THEN
        RAISE WARNING 'no feed is running, so nothing of % reaches the lake yet', v_target.title
            USING HINT = '`thermocline feed` runs it.';
    END IF;
END
$$;

COMMENT ON FUNCTION lakets.enable_sync(text, text, text) IS
    'Sends every change of a ChronoTable or a RollUp, and the rows that it has already, to its history table in the lake. p_mode is direct '
    'or shadow, as the setting lakets.sync_mode says unless it is given; a table that is synced is switched to the mode that is given.';
