-- Ends the sync of a ChronoTable or a RollUp; not while it has late rows that the lake does not provably have. What is in the lake stays there; in shadow mode the mirror and its triggers go. What is
-- written from now on reaches the lake only after enable_sync, which copies every chunk anew.
CREATE OR REPLACE FUNCTION lakets.disable_sync(
    p_table_name  text,
    p_schema_name text DEFAULT 'public'
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_target record;
    v_trap   text;
BEGIN
    SELECT * INTO STRICT v_target FROM thermocline._sync_target(p_table_name, p_schema_name);
    PERFORM pg_advisory_xact_lock(hashtextextended('thermocline publication', 0));
    IF NOT thermocline._leave_stream(v_target.id, 'sync was ended by disable_sync') THEN
        RAISE NOTICE '% is not synced, left as it is', v_target.title;
        RETURN;
    END IF;
    SELECT t.trap_oid::regclass INTO v_trap FROM thermocline.trap t
    WHERE t.chronotable_id = v_target.id AND t.size_bytes > 0 AND thermocline._trap_has_rows(t.trap_oid) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'cannot end the sync of %: % has late rows that are not settled', v_target.title, v_trap
            USING HINT = 'Nothing was changed. `thermocline late` settles them: it lets them go once the lake has them. DELETE takes them back.';
    END IF;
    IF NOT EXISTS (SELECT FROM thermocline.synced_table WHERE status <> 'TERMINATED') THEN
        RAISE NOTICE 'that was the last synced table; `thermocline feed` removes the replication slot'
            USING HINT = 'Until then the slot keeps the write-ahead log: `thermocline feed --once` if no feed is running.';
    END IF;
END
$$;

COMMENT ON FUNCTION lakets.disable_sync(text, text) IS
    'Ends the sync of a ChronoTable or a RollUp; its history stays in the lake.';
