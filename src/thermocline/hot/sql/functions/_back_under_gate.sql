-- Takes the flag from a tiered chunk whose proof no longer holds. A reason that will pass by itself, such as a busy
-- table or a feed that stands still, leaves the flag.
CREATE OR REPLACE FUNCTION thermocline._back_under_gate(p_chunk oid, p_code text) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE lakets._chunk_metadata SET status = 'active', tiered_at = NULL
    WHERE chunk_oid = p_chunk AND status = 'tiered'
      AND p_code IN ('not_synced', 'not_covered', 'no_receipt', 'other_history', 'receipt_stale',
                     'rewritten', 'columns_changed', 'changed_since_receipt')
$$;

COMMENT ON FUNCTION thermocline._back_under_gate(oid, text) IS 'Makes a tiered chunk active again if the reason says so.';
