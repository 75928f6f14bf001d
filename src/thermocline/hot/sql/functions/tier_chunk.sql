-- Flags a chunk as tiered when it could be dropped right now: proven in the lake, nobody writing to it. Removes nothing. The
-- claim is made and undone, so that its lock lasts no longer than the check; the drop checks everything again. A name without a schema is
-- one of public.
CREATE OR REPLACE FUNCTION lakets.tier_chunk(p_chunk_name text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_chunk oid;
    v_code  text;
    v_hint  text;
BEGIN
    SELECT m.chunk_oid INTO v_chunk FROM lakets._chunk_metadata m
    WHERE (p_chunk_name IN (m.chunk_name, m.chunk_oid::regclass::text) OR m.chunk_name = 'public.' || p_chunk_name)
      AND m.status <> 'dropped';
    IF NOT FOUND THEN
        RAISE NOTICE 'there is no resident chunk %', coalesce(p_chunk_name, 'without a name')
            USING HINT = 'SELECT chunk_name FROM lakets.show_chunks(<table>) lists them.';
        RETURN false;
    END IF;
    BEGIN
        PERFORM thermocline._claim_chunk(v_chunk, NULL, true);
        RAISE EXCEPTION USING ERRCODE = 'TC000', MESSAGE = 'passed';
    EXCEPTION
        WHEN SQLSTATE 'TC000' THEN
            UPDATE lakets._chunk_metadata SET status = 'tiered', tiered_at = now()
            WHERE chunk_oid = v_chunk AND status = 'active';
            RETURN true;
        WHEN lock_not_available THEN
            RAISE NOTICE '% is in use and not tiered now', p_chunk_name USING HINT = 'Try again later.';
        WHEN raise_exception THEN
            GET STACKED DIAGNOSTICS v_code = PG_EXCEPTION_DETAIL, v_hint = PG_EXCEPTION_HINT;
            RAISE NOTICE '%', SQLERRM USING DETAIL = v_code, HINT = v_hint;
            PERFORM thermocline._back_under_gate(v_chunk, v_code);
    END;
    RETURN false;
END
$$;

COMMENT ON FUNCTION lakets.tier_chunk(text) IS
    'Flags a chunk as tiered if the gate lets it pass; false, with the reason in a notice, if it does not.';
