-- Drops one chunk, attached or already detached by the worker: claims it, removes it, and sets a trap for late rows.
CREATE OR REPLACE FUNCTION thermocline._drop_chunk(
    p_chunk   oid,
    p_receipt bigint  DEFAULT NULL,
    p_gated   boolean DEFAULT true,
    p_forced  boolean DEFAULT false,
    p_reason  text    DEFAULT 'asked for'
) RETURNS pg_lsn
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_evidence jsonb  := thermocline._claim_chunk(p_chunk, p_receipt, p_gated);
    v_position pg_lsn := thermocline._remove_chunk(p_chunk, v_evidence, p_forced, p_reason);
BEGIN
    PERFORM thermocline._set_traps(d.chronotable_id, false)
    FROM thermocline.dropped_range d WHERE d.drop_position = v_position AND d.chunk_oid = p_chunk;
    RETURN v_position;
END
$$;

COMMENT ON FUNCTION thermocline._drop_chunk(oid, bigint, boolean, boolean, text) IS
    'Drops one chunk if nothing speaks against it, and returns the position of the drop in the log; an exception with the '
    'reason otherwise.';
