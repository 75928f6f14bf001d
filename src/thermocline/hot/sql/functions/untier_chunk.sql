-- Takes the flag from a tiered chunk. A name without a schema is one of public.
CREATE OR REPLACE FUNCTION lakets.untier_chunk(p_chunk_name text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM thermocline._require_owner(m.chronotable_id) FROM lakets._chunk_metadata m
    WHERE (p_chunk_name IN (m.chunk_name, m.chunk_oid::regclass::text) OR m.chunk_name = 'public.' || p_chunk_name)
      AND m.status <> 'dropped';
    UPDATE lakets._chunk_metadata m SET status = 'active', tiered_at = NULL
    WHERE (p_chunk_name IN (m.chunk_name, m.chunk_oid::regclass::text) OR m.chunk_name = 'public.' || p_chunk_name)
      AND m.status = 'tiered';
    IF NOT FOUND THEN
        RAISE EXCEPTION '% is not a tiered chunk', coalesce(p_chunk_name, 'NULL')
            USING HINT = 'SELECT chunk_name, status FROM lakets.show_chunks(<table>) tells the state of each.';
    END IF;
END
$$;

COMMENT ON FUNCTION lakets.untier_chunk(text) IS 'Makes a tiered chunk active again; an error if it is not tiered.';
