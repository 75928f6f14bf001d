-- Tells the change feed and the RollUps that a chunk was emptied: TRUNCATE of one partition leaves no trace in the stream otherwise.
-- Whoever truncates needs no right on anything of ours. Which range it is, our own records say, not the trigger.
CREATE OR REPLACE FUNCTION thermocline._chunk_truncated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
BEGIN
    -- One that is no longer a part of its table is passed by: what the lake has of its range stays.
    PERFORM thermocline._tell(jsonb_build_object(
        'event', 'chunk_truncated', 'chronotable', m.chronotable_id, 'chunk', m.chunk_oid::bigint,
        'file', (SELECT c.relfilenode::bigint FROM pg_class c WHERE c.oid = m.chunk_oid),
        'range_start', m.range_start, 'range_end', m.range_end))
    FROM lakets._chunk_metadata m JOIN pg_inherits i ON i.inhrelid = m.chunk_oid
    WHERE m.chunk_oid = TG_RELID AND m.status <> 'dropped' AND NOT i.inhdetachpending;
    PERFORM thermocline._mark_range(m.chronotable_id, m.range_start, m.range_end, 'chunk_changed')
    FROM lakets._chunk_metadata m JOIN pg_inherits i ON i.inhrelid = m.chunk_oid
    WHERE m.chunk_oid = TG_RELID AND m.status <> 'dropped';
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION thermocline._chunk_truncated() IS
    'Trigger of every chunk: writes a message into the stream when the chunk is truncated.';

REVOKE ALL ON FUNCTION thermocline._chunk_truncated() FROM PUBLIC;
