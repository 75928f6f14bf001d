-- The first half of a drop: makes sure that a chunk may go, and that this stays true until the transaction ends. What can be
-- told without a lock is told first; then SHARE, which waits for everybody who writes to the chunk; then, in a later
-- statement and so with a younger snapshot, everything again with the rows. Refuses with an exception, whose DETAIL is the
-- reason's code, so that undoing the caller's block lets the lock go.
CREATE OR REPLACE FUNCTION thermocline._claim_chunk(p_chunk oid, p_receipt bigint, p_gated boolean) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_receipt  bigint := coalesce(p_receipt, (SELECT max(r.id) FROM thermocline.receipt r WHERE r.chunk_oid = p_chunk));
    v_against  record;
    v_evidence jsonb;
BEGIN
    SELECT * INTO v_against FROM thermocline._chunk_verdict(p_chunk, v_receipt, p_gated, false) LIMIT 1;
    IF NOT FOUND THEN
        PERFORM FROM lakets._chunk_metadata m WHERE m.chunk_oid = p_chunk AND m.status <> 'dropped' FOR UPDATE NOWAIT;
        PERFORM thermocline._lock(p_chunk, 'SHARE');
        SELECT * INTO v_against FROM thermocline._chunk_verdict(p_chunk, v_receipt, p_gated) LIMIT 1;
    END IF;
    IF FOUND THEN
        RAISE EXCEPTION '% stays: %', p_chunk::regclass, v_against.message
            USING DETAIL = v_against.code, HINT = v_against.next_step,
                  ERRCODE = CASE v_against.code WHEN 'busy' THEN 'lock_not_available' ELSE 'raise_exception' END;
    END IF;
    IF p_gated THEN
        SELECT jsonb_build_object('gated', true, 'row_count', r.row_count, 'receipt', to_jsonb(r)) INTO STRICT v_evidence
        FROM thermocline.receipt r WHERE r.id = v_receipt;
    ELSE
        SELECT jsonb_build_object('gated', false) || to_jsonb(e) INTO STRICT v_evidence
        FROM thermocline._chunk_evidence(p_chunk) e;
    END IF;
    RETURN v_evidence;
END
$$;

COMMENT ON FUNCTION thermocline._claim_chunk(oid, bigint, boolean) IS
    'Locks a chunk that may be dropped and returns the evidence; an exception with the reason if it may not.';
