-- Partitions of a ChronoTable that are neither a chunk nor a trap: somebody else's, or the default one.
CREATE OR REPLACE FUNCTION thermocline._foreign_partitions(p_table oid) RETURNS TABLE (partition oid)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT i.inhrelid
    FROM pg_inherits i
    WHERE i.inhparent = p_table
      AND NOT EXISTS (SELECT FROM lakets._chunk_metadata m WHERE m.chunk_oid = i.inhrelid AND m.status <> 'dropped')
      AND NOT EXISTS (SELECT FROM thermocline.dropped_range d WHERE d.trap_oid = i.inhrelid)
$$;

COMMENT ON FUNCTION thermocline._foreign_partitions(oid) IS
    'Partitions of a ChronoTable that Thermocline has not made.';
