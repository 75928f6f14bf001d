-- A reason against dropping a chunk, in words, and what to do about it. Pure: what it speaks of is passed in.
CREATE OR REPLACE FUNCTION thermocline._reason_words(
    p_code    text,
    p_table   text   DEFAULT NULL,
    p_schema  text   DEFAULT NULL,
    p_feed    text   DEFAULT NULL,
    p_rollups text   DEFAULT NULL,
    p_then    bigint DEFAULT NULL,
    p_now     bigint DEFAULT NULL
) RETURNS TABLE (message text, next_step text)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT r.message, r.next_step FROM (VALUES
        ('isolation_level',
         'the transaction is not READ COMMITTED, so the check would look at an old state',
         'Begin the transaction with ISOLATION LEVEL READ COMMITTED.'),
        ('unknown_chunk',
         'it is not a chunk of a ChronoTable, or it is dropped already',
         'lakets.show_chunks lists the chunks of a table.'),
        ('gone',
         'its table is not there any more; it was dropped by other means',
         '`thermocline maintain` takes note of it.'),
        ('detach_pending',
         'a detach of it was begun and is not finished',
         '`thermocline retention` finishes its own; finish another one with ALTER TABLE ... DETACH PARTITION ... FINALIZE.'),
        ('moved',
         'it is no longer the partition of its table for its range',
         'Attach it again, or remove its row from lakets._chunk_metadata if it is now a table of its own.'),
        ('depended_on',
         'a view or a function depends on it',
         'Let the view or the function use the whole table, or drop it.'),
        ('kept',
         'it was brought back from the lake and is kept',
         'It goes when its time is over, or after SELECT lakets.release(...).'),
        ('not_synced',
         'its table is not synced, so the lake does not have its rows',
         pg_catalog.format('SELECT lakets.enable_sync(%L, %L)', p_table, p_schema)),
        ('feed_not_streaming',
         pg_catalog.format('the feed of its table is %s', p_feed),
         'Wait until the feed streams; `thermocline feed` runs it.'),
        ('not_covered',
         'its rows are not copied to the lake yet',
         'Wait until the feed has copied it.'),
        ('rollup_behind',
         pg_catalog.format('RollUps still need its rows: %s', p_rollups),
         'SELECT * FROM lakets.refresh_rollup_cascade(); then wait until writers that are open now have ended, and until buckets that '
         'are wider than the chunk are over. `thermocline rollup show` says more.'),
        ('no_receipt',
         'it has no receipt: nobody has compared it with the lake yet',
         '`thermocline verify` compares it.'),
        ('other_history',
         'receipt, feed and server are not of one history (system identifier, timeline, slot)',
         'A restored or promoted server, or a new slot, needs a resync of the feed and then a new receipt.'),
        ('receipt_stale',
         'its receipt is no longer good: there is a newer one, or too many transactions have run since',
         '`thermocline verify` compares it again.'),
        ('rewritten',
         'it was truncated or rewritten after its receipt was made',
         '`thermocline verify` compares it again.'),
        ('columns_changed',
         'its columns were changed after its receipt was made',
         '`thermocline verify` compares it again.'),
        ('changed_since_receipt',
         'rows were written after its receipt was made'
         OPERATOR(pg_catalog.||) CASE WHEN p_then IS NULL THEN '' ELSE pg_catalog.format(': it had %s then and has %s now', p_then, p_now) END,
         'Wait until the feed has brought them to the lake; `thermocline verify` then compares it again.'),
        ('lake_changed',
         'the lake''s table has changed since it was last looked at',
         '`thermocline retention` looks right before it drops a chunk; leave the drop to it.'),
        ('lake_unchecked',
         'nobody has looked lately whether the lake still holds it',
         '`thermocline retention` looks right before it drops a chunk; leave the drop to it.'),
        ('busy', 'somebody else has locked it', 'Try again later.')
    ) AS r (code, message, next_step) WHERE r.code OPERATOR(pg_catalog.=) p_code;
END;

COMMENT ON FUNCTION thermocline._reason_words(text, text, text, text, text, bigint, bigint) IS
    'What a code of a reason means and what to do, in words; no row for a code that it does not know.';
