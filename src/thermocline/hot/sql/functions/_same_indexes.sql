-- Gives the indexes of a chunk that was just attached what ATTACH leaves out: the statistics targets of those of its table, and the CLUSTER
-- mark. A partitioned table cannot have that, so it is the one of p_clustered, an index of the table, or of the newest chunk.
CREATE OR REPLACE FUNCTION thermocline._same_indexes(p_chronotable_id int, p_chunk oid, p_clustered oid DEFAULT NULL) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_clustered oid := p_clustered;
    v_do        text;
BEGIN
    IF v_clustered IS NULL THEN
        SELECT h.inhparent INTO v_clustered
        FROM (SELECT m.chunk_oid FROM lakets._chunk_metadata m
              WHERE m.chronotable_id = p_chronotable_id AND m.status <> 'dropped' AND m.chunk_oid <> p_chunk
              ORDER BY m.range_start DESC LIMIT 1) newest
        JOIN pg_index i ON i.indrelid = newest.chunk_oid AND i.indisclustered
        JOIN pg_inherits h ON h.inhrelid = i.indexrelid;
    END IF;
    FOR v_do IN
        SELECT s.statement
        FROM pg_index i
        JOIN pg_class c ON c.oid = i.indexrelid
        JOIN pg_inherits h ON h.inhrelid = i.indexrelid,
             LATERAL (SELECT format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS %s', i.indexrelid::regclass, a.attnum, a.attstattarget)
                      FROM pg_attribute a WHERE a.attrelid = h.inhparent AND a.attstattarget >= 0
                      UNION ALL
                      SELECT format('ALTER TABLE %s CLUSTER ON %I', p_chunk::regclass, c.relname) WHERE h.inhparent = v_clustered
             ) s (statement)
        WHERE i.indrelid = p_chunk
    LOOP
        EXECUTE v_do;
    END LOOP;
END
$$;

COMMENT ON FUNCTION thermocline._same_indexes(int, oid, oid) IS
    'Gives the indexes of an attached chunk the statistics targets and the CLUSTER mark of its ChronoTable.';
