-- Takes a table or RollUp out of the stream: nothing of it counts as covered, and in shadow mode its triggers and its mirror go. What is in
-- the lake stays, and late rows are refused. The caller holds the lock of the publication. Returns false if it was not synced. Of a table that
-- goes chunk by chunk, triggers and mirror stay until it has gone: to take them away is to lock every chunk.
CREATE OR REPLACE FUNCTION thermocline._leave_stream(p_chronotable_id int, p_reason text, p_goes boolean DEFAULT false) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_synced   thermocline.synced_table;
    v_streamed oid;
BEGIN
    UPDATE thermocline.synced_table
    SET status = 'TERMINATED', reason = p_reason, waits_for = NULL, streams_from = NULL
    WHERE chronotable_id = p_chronotable_id AND status <> 'TERMINATED'
    RETURNING * INTO v_synced;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM thermocline.chunk_copy WHERE chronotable_id = p_chronotable_id;
    IF thermocline._fit_traps(p_chronotable_id) > 0 THEN
        RAISE EXCEPTION 'cannot end the sync of %: a transaction that uses its late rows is open', v_synced.table_oid::regclass
            USING ERRCODE = 'lock_not_available',
                  HINT = 'Nothing was changed. Try again when it has ended; pg_stat_activity shows long transactions.';
    END IF;
    v_streamed := CASE v_synced.mode WHEN 'shadow' THEN v_synced.shadow_oid ELSE v_synced.table_oid END;
    IF v_synced.mode = 'shadow' AND NOT p_goes THEN
        PERFORM thermocline._keep_writers_off(v_synced.table_oid, 'ACCESS EXCLUSIVE',
                                              format('cannot end the sync of %s', v_synced.table_oid::regclass));
        PERFORM thermocline._unwatch(p_chronotable_id, v_synced.table_oid, 'thermocline._mirrored()');
        PERFORM thermocline._drop_shadow(p_chronotable_id);
    ELSIF EXISTS (SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
                  WHERE p.pubname = 'thermocline' AND r.prrelid = v_streamed) THEN
        EXECUTE format('ALTER PUBLICATION thermocline DROP TABLE %s', v_streamed::regclass);
    END IF;
    UPDATE lakets._chronotable_registry SET sync_enabled = false WHERE id = p_chronotable_id;
    UPDATE lakets._rollup_registry SET sync_enabled = false WHERE id = -p_chronotable_id;
    RETURN true;
END
$$;

COMMENT ON FUNCTION thermocline._leave_stream(int, text, boolean) IS 'Takes a table or RollUp out of the stream; false if it was not in it.';
