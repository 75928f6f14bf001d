-- The partitions of a table, each with a hash of its oid, its file and its being attached: attaching makes the triggers of a chunk anew, so
-- by their oid one that was away is known. Bound when it is created and without a SET clause, so that the planner can inline it.
CREATE OR REPLACE FUNCTION thermocline._chunk_states(p_table oid) RETURNS TABLE (part oid, state bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT i.inhrelid, pg_catalog.hash_record_extended(ROW(i.inhrelid, c.relfilenode, t.oid), 0)
    FROM pg_catalog.pg_inherits i
    JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
    LEFT JOIN pg_catalog.pg_trigger t ON t.tgrelid = i.inhrelid AND t.tgname = 'trg_lakets_rollup_bulk_invalidation'
    WHERE i.inhparent = p_table AND NOT i.inhdetachpending;
END;

COMMENT ON FUNCTION thermocline._chunk_states(oid) IS 'The partitions of a table, each with what tells whether it is as it was.';
