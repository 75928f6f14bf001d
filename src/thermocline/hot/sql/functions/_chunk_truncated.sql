-- Tells the change feed that a chunk was emptied: TRUNCATE of one partition leaves no trace in the stream otherwise.
-- Runs with the rights of whoever truncates, and needs none of them.
CREATE OR REPLACE FUNCTION thermocline._chunk_truncated() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = TG_RELID AND NOT inhdetachpending) THEN
        RETURN NULL;  -- no longer a part of its table: what the lake has of its range stays
    END IF;
    PERFORM pg_logical_emit_message(
        true, 'thermocline',
        jsonb_build_object('event', 'chunk_truncated', 'chronotable', TG_ARGV[0]::int, 'chunk', TG_RELID::bigint,
                           'range_start', TG_ARGV[1], 'range_end', TG_ARGV[2])::text);
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION thermocline._chunk_truncated() IS
    'Trigger of every chunk: writes a message into the stream when the chunk is truncated.';
