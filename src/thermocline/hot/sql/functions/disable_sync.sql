-- Ends the sync of a ChronoTable or a RollUp. What is in the lake stays there. What is written from now on reaches the lake only
-- after enable_sync, which copies every chunk anew.
CREATE OR REPLACE FUNCTION lakets.disable_sync(
    p_table_name  text,
    p_schema_name text DEFAULT 'public'
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_target record;
    v_table  oid;
BEGIN
    SELECT * INTO STRICT v_target FROM thermocline._sync_target(p_table_name, p_schema_name);
    PERFORM pg_advisory_xact_lock(hashtextextended('thermocline publication', 0));
    UPDATE thermocline.synced_table
    SET status = 'TERMINATED', reason = 'sync was ended by disable_sync', waits_for = NULL, streams_from = NULL
    WHERE chronotable_id = v_target.id AND status <> 'TERMINATED'
    RETURNING table_oid INTO v_table;
    IF v_table IS NULL THEN
        RAISE NOTICE '% is not synced, left as it is', v_target.title;
        RETURN;
    END IF;
    DELETE FROM thermocline.chunk_copy WHERE chronotable_id = v_target.id;
    IF EXISTS (SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
               WHERE p.pubname = 'thermocline' AND r.prrelid = v_table) THEN
        EXECUTE format('ALTER PUBLICATION thermocline DROP TABLE %s', v_table::regclass);
    END IF;
    UPDATE lakets._chronotable_registry SET sync_enabled = false WHERE id = v_target.id;
    UPDATE lakets._rollup_registry SET sync_enabled = false WHERE id = -v_target.id;
    IF NOT EXISTS (SELECT FROM thermocline.synced_table WHERE status <> 'TERMINATED') THEN
        RAISE NOTICE 'that was the last synced table; the next `thermocline feed` removes the replication slot'
            USING HINT = 'Until then the slot keeps the write-ahead log.';
    END IF;
END
$$;

COMMENT ON FUNCTION lakets.disable_sync(text, text) IS
    'Ends the sync of a ChronoTable or a RollUp; its history stays in the lake.';
