-- What speaks against dropping a chunk: no row when nothing does. Each line below is something that must hold, and what
-- cannot be known does not hold. The groups go from cheap to dear and the first that refuses ends it: the rows are read
-- last, and doubts about the lake come up only when nothing else is left.
-- An ungated drop (asked for by force, or of a table that is not synced) must only be of our own chunk where we left it.
CREATE OR REPLACE FUNCTION thermocline._chunk_verdict(
    p_chunk     oid,
    p_receipt   bigint  DEFAULT NULL,
    p_gated     boolean DEFAULT true,
    p_with_rows boolean DEFAULT true
) RETURNS TABLE (code text, message text, next_step text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET lock_timeout = '400ms'
AS $$
DECLARE
    c_look_lasts constant interval := '60 seconds';
    c_same_lasts constant interval := '1 day';
    c_xids_last  constant bigint   := 2147483648;
    v_chunk    lakets._chunk_metadata;
    v_table    lakets._chronotable_registry;
    v_synced   thermocline.synced_table;
    v_stream   thermocline.stream;
    v_receipt  thermocline.receipt;
    v_now      record;
    v_server   record;
    v_detach   record;
    v_bound    text;
    v_location text;
    v_looked   boolean;
BEGIN
    SELECT * INTO v_chunk FROM lakets._chunk_metadata m WHERE m.chunk_oid = p_chunk AND m.status <> 'dropped';
    SELECT * INTO v_table FROM lakets._chronotable_registry t WHERE t.id = v_chunk.chronotable_id;
    SELECT * INTO v_now FROM thermocline._chunk_evidence(p_chunk, false);
    SELECT format('FOR VALUES FROM (%L) TO (%L)', lakets._bound_of(v_chunk.range_start, y.type),
                  lakets._bound_of(v_chunk.range_end, y.type)) INTO v_bound
    FROM pg_attribute a, LATERAL format_type(a.atttypid, NULL) y (type)
    WHERE a.attrelid = v_table.table_oid AND a.attname = v_table.time_column;
    SELECT coalesce(bool_or(i.inhdetachpending), false) AS pending, d.chunk_oid IS NOT NULL AS ours, d.bound INTO v_detach
    FROM (SELECT) one
    LEFT JOIN pg_inherits i ON i.inhrelid = p_chunk
    LEFT JOIN thermocline.detaching d ON d.chunk_oid = p_chunk AND d.chronotable_id = v_table.id
    GROUP BY d.chunk_oid, d.bound;

    RETURN QUERY SELECT r.code, r.message, r.next_step FROM (VALUES
        ('isolation_level', current_setting('transaction_isolation') = 'read committed',
         'the transaction is not READ COMMITTED, so the check would look at an old state',
         'Begin the transaction with ISOLATION LEVEL READ COMMITTED.'),
        ('unknown_chunk', v_chunk.id IS NOT NULL,
         'it is not a chunk of a ChronoTable, or it is dropped already',
         'lakets.show_chunks lists the chunks of a table.'),
        ('gone', v_chunk.id IS NULL OR v_now.relfilenode IS NOT NULL,
         'its table is not there any more; it was dropped by other means',
         '`thermocline maintain` takes note of it.'),
        ('detach_pending', NOT v_detach.pending,
         'a detach of it was begun and is not finished',
         '`thermocline retention` finishes its own; finish another one with ALTER TABLE ... DETACH PARTITION ... FINALIZE.'),
        ('moved', v_chunk.id IS NULL OR v_now.relfilenode IS NULL OR v_detach.pending
                  OR (v_now.parent = v_table.table_oid AND v_now.bound = v_bound)
                  OR (v_now.parent IS NULL AND v_detach.ours AND v_detach.bound = v_bound),
         'it is no longer the partition of its table for its range',
         'Attach it again, or remove its row from lakets._chunk_metadata if it is now a table of its own.'),
        ('depended_on', NOT EXISTS (
             SELECT FROM pg_depend d
             WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = p_chunk AND d.deptype = 'n'
               AND d.classid IN ('pg_rewrite'::regclass, 'pg_proc'::regclass)),
         'a view or a function depends on it',
         'Let the view or the function use the whole table, or drop it.')
    ) AS r (code, holds, message, next_step) WHERE r.holds IS NOT TRUE;
    IF FOUND OR NOT p_gated THEN
        RETURN;
    END IF;

    SELECT * INTO v_synced FROM thermocline.synced_table s WHERE s.chronotable_id = v_table.id;
    SELECT * INTO v_stream FROM thermocline.stream;
    SELECT * INTO v_server FROM thermocline._server_history();
    SELECT * INTO v_receipt FROM thermocline.receipt r WHERE r.chunk_oid = p_chunk ORDER BY r.id DESC LIMIT 1;
    RETURN QUERY SELECT r.code, r.message, r.next_step FROM (VALUES
        ('not_synced', v_synced.status <> 'TERMINATED' AND v_synced.table_oid = v_table.table_oid,
         'its table is not synced, so the lake does not have its rows',
         format('SELECT lakets.enable_sync(%L, %L)', v_table.table_name, v_table.schema_name)),
        ('feed_not_streaming', v_synced.status IS NULL OR v_synced.status IN ('STREAMING', 'TERMINATED'),
         format('the feed of its table is %s%s', CASE v_synced.status WHEN 'JOINING' THEN 'SNAPSHOTTING' ELSE v_synced.status END,
                ': ' || v_synced.reason),
         'Wait until the feed streams; `thermocline feed` runs it.'),
        ('not_covered', v_synced.status IS NULL OR EXISTS (
             SELECT FROM thermocline.chunk_copy c WHERE c.chunk_oid = p_chunk AND c.chronotable_id = v_table.id),
         'its rows are not copied to the lake yet',
         'Wait until the feed has copied it.'),
        ('rollup_behind', NOT EXISTS (
             SELECT FROM thermocline._rollups_behind(v_table.id, v_chunk.range_start, v_chunk.range_end)),
         format('RollUps still need its rows: %s',
                (SELECT string_agg(b.name, ', ')
                 FROM thermocline._rollups_behind(v_table.id, v_chunk.range_start, v_chunk.range_end) b)),
         'SELECT * FROM lakets.refresh_rollup_cascade(); then wait until writers that are open now have ended, and until buckets that '
         'are wider than the chunk are over. `thermocline rollup show` says more.'),
        ('no_receipt', v_receipt.id IS NOT NULL,
         'it has no receipt: nobody has compared it with the lake yet',
         '`thermocline verify` compares it.')
    ) AS r (code, holds, message, next_step) WHERE r.holds IS NOT TRUE;
    IF FOUND THEN
        RETURN;
    END IF;

    RETURN QUERY SELECT r.code, r.message, r.next_step FROM (VALUES
        ('other_history',
         (v_receipt.system_identifier, v_receipt.timeline) = (v_stream.system_identifier, v_stream.timeline)
             AND (v_stream.system_identifier, v_stream.timeline) = (v_server.system_identifier, v_server.timeline)
             AND v_receipt.slot_name = v_stream.slot_name
             AND v_receipt.epoch <= v_stream.epoch AND v_receipt.made_at >= v_stream.created_at
             AND EXISTS (SELECT FROM pg_replication_slots s
                         WHERE s.slot_name = v_stream.slot_name AND s.database = current_database()
                           AND s.wal_status <> 'lost'),
         'receipt, feed and server are not of one history (system identifier, timeline, slot)',
         'A restored or promoted server, or a new slot, needs a resync of the feed and then a new receipt.'),
        ('receipt_stale',
         v_receipt.id = coalesce(p_receipt, v_receipt.id)
             AND pg_snapshot_xmax(pg_current_snapshot())::text::numeric - v_receipt.next_xid::text::numeric
                 BETWEEN 0 AND c_xids_last - 1
             AND (v_receipt.chronotable_id, v_receipt.range_start, v_receipt.range_end)
                 = (v_chunk.chronotable_id, v_chunk.range_start, v_chunk.range_end),
         'its receipt is no longer good: there is a newer one, or too many transactions have run since',
         '`thermocline verify` compares it again.'),
        ('rewritten', v_now.relfilenode = v_receipt.relfilenode,
         'it was truncated or rewritten after its receipt was made',
         '`thermocline verify` compares it again.'),
        ('columns_changed', v_now.columns = v_receipt.columns,
         'its columns were changed after its receipt was made',
         '`thermocline verify` compares it again.')
    ) AS r (code, holds, message, next_step) WHERE r.holds IS NOT TRUE;
    IF FOUND THEN
        RETURN;
    END IF;

    SELECT * INTO v_now FROM thermocline._chunk_evidence(p_chunk, p_with_rows);
    SELECT i.metadata_location INTO v_location FROM thermocline_lake.iceberg_tables i
    WHERE i.catalog_name = 'lake' AND i.table_namespace || '.' || i.table_name = v_receipt.lake_table;
    -- A catalog of ours tells the version of the lake's table: the one that was looked at, or one that the feed has just
    -- made from it. An older one is another state of the lake.
    v_looked := CASE
        WHEN v_location = v_receipt.lake_checked_metadata
            THEN v_receipt.lake_checked_at BETWEEN clock_timestamp() - c_same_lasts AND clock_timestamp()
        ELSE v_receipt.lake_checked_at BETWEEN clock_timestamp() - c_look_lasts AND clock_timestamp()
             AND coalesce(substring(v_location FROM '/([0-9]+)-[^/]*$')::bigint
                          > substring(v_receipt.lake_checked_metadata FROM '/([0-9]+)-[^/]*$')::bigint, true)
        END;
    RETURN QUERY SELECT r.code, r.message, r.next_step FROM (VALUES
        ('changed_since_receipt',
         NOT p_with_rows
             OR (v_now.row_count, v_now.fingerprint, v_now.relfilenode, v_now.columns)
                = (v_receipt.row_count, v_receipt.fingerprint, v_receipt.relfilenode, v_receipt.columns),
         format('rows were written after its receipt was made: it had %s then and has %s now',
                v_receipt.row_count, v_now.row_count),
         'Wait until the feed has brought them to the lake; `thermocline verify` then compares it again.'),
        ('lake_changed', v_synced.lake_table = v_receipt.lake_table
                         AND (v_looked OR v_location IS NULL OR v_receipt.lake_checked_metadata IS NULL
                              OR v_location = v_receipt.lake_checked_metadata),
         'the lake''s table has changed since it was last looked at',
         '`thermocline retention` looks right before it drops a chunk; leave the drop to it.'),
        ('lake_unchecked', v_looked OR v_location <> v_receipt.lake_checked_metadata,
         'nobody has looked lately whether the lake still holds it',
         '`thermocline retention` looks right before it drops a chunk; leave the drop to it.')
    ) AS r (code, holds, message, next_step) WHERE r.holds IS NOT TRUE;
EXCEPTION
    WHEN lock_not_available THEN
        RETURN QUERY VALUES ('busy', 'somebody else has locked it', 'Try again later.');
END
$$;

COMMENT ON FUNCTION thermocline._chunk_verdict(oid, bigint, boolean, boolean) IS
    'Reasons against dropping a chunk: a code that never changes, words, and what to do. No row means it may go.';
