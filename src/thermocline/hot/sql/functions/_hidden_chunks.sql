-- Registered chunks that are not partitions now, not by our doing: somebody has detached or dropped them. Their rows cannot be seen,
-- and may come back.
CREATE OR REPLACE FUNCTION thermocline._hidden_chunks(p_chronotable_id int)
RETURNS TABLE (chunk_oid oid, range_start timestamptz, range_end timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT m.chunk_oid, m.range_start, m.range_end
    FROM lakets._chunk_metadata m
    WHERE m.chronotable_id = p_chronotable_id AND m.status <> 'dropped'
      AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = m.chunk_oid AND NOT i.inhdetachpending)
      AND NOT EXISTS (SELECT FROM thermocline.detaching d WHERE d.chunk_oid = m.chunk_oid)
$$;

COMMENT ON FUNCTION thermocline._hidden_chunks(int) IS 'Registered chunks of a table that are not partitions now.';
