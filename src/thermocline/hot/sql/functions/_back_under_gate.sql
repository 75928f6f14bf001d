-- Takes the flag from a tiered chunk whose proof no longer holds, and notes why, so that everybody is told. A reason that will pass by
-- itself, such as a busy table or a feed that stands still, leaves the flag.
CREATE OR REPLACE FUNCTION thermocline._back_under_gate(p_chunk oid, p_code text) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    WITH back AS (
        UPDATE lakets._chunk_metadata SET status = 'active', tiered_at = NULL
        WHERE chunk_oid = p_chunk AND status = 'tiered'
          AND p_code IN ('not_synced', 'not_covered', 'no_receipt', 'other_history', 'receipt_stale',
                         'rewritten', 'columns_changed', 'changed_since_receipt')
        RETURNING chunk_oid, chronotable_id
    )
    INSERT INTO thermocline.unproven (chunk_oid, chronotable_id, code, message, next_step)
    SELECT b.chunk_oid, b.chronotable_id, p_code, w.message, w.next_step
    FROM back b, LATERAL thermocline._reason_words(p_code) w
    WHERE p_code IN ('rewritten', 'columns_changed', 'changed_since_receipt')
    ON CONFLICT (chunk_oid) DO UPDATE
        SET code = excluded.code, message = excluded.message, next_step = excluded.next_step, since = excluded.since,
            last_at = excluded.last_at, attempts = 1, not_before = excluded.not_before
$$;

COMMENT ON FUNCTION thermocline._back_under_gate(oid, text) IS 'Makes a tiered chunk active again if the reason says so.';
