-- Writes a message about a chunk into the stream, sealed: its text, and in a second line what only we can compute of it.
-- With the rights of its owner, since whoever truncates a chunk may not read the key, and for nobody else to call.
CREATE OR REPLACE FUNCTION thermocline._tell(p_event jsonb) RETURNS pg_lsn
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT pg_logical_emit_message(
        true, 'thermocline',
        p_event::text || E'\n' || encode(sha256(s.key || sha256(s.key || convert_to(p_event::text, 'UTF8'))), 'hex'))
    FROM thermocline.seal s
$$;

COMMENT ON FUNCTION thermocline._tell(jsonb) IS 'Writes a sealed message about a chunk into the stream; returns its position.';

REVOKE ALL ON FUNCTION thermocline._tell(jsonb) FROM PUBLIC;
