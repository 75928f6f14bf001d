-- How many rows of a table and its partitions this transaction has written so far, and those before it that are not counted in yet. Of
-- use for one thing only: if it has not grown, nothing was written.
CREATE OR REPLACE FUNCTION thermocline._written(p_table oid) RETURNS bigint
LANGUAGE sql VOLATILE
RETURN (SELECT sum(pg_stat_get_xact_tuples_inserted(w.oid) + pg_stat_get_xact_tuples_updated(w.oid)
                   + pg_stat_get_xact_tuples_deleted(w.oid))
        FROM (SELECT p_table AS oid UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = p_table) w);

COMMENT ON FUNCTION thermocline._written(oid) IS 'Grows when this transaction writes rows of a table.';
