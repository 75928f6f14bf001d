-- The size of a table as pg_total_relation_size has it. That asks the file system some twenty times for one table, which adds up over
-- thousands of chunks; an empty TOAST table is the page of its index and nothing else, so half of it need not be asked.
CREATE OR REPLACE FUNCTION thermocline._size_of(p_table oid, p_toast oid, p_persistence "char") RETURNS bigint
LANGUAGE sql VOLATILE
RETURN CASE WHEN p_persistence OPERATOR(pg_catalog.=) 'p' AND p_toast OPERATOR(pg_catalog.<>) 0
                 AND pg_catalog.pg_relation_size(p_toast) OPERATOR(pg_catalog.=) 0
            THEN pg_catalog.pg_relation_size(p_table) OPERATOR(pg_catalog.+) pg_catalog.pg_relation_size(p_table, 'fsm')
                 OPERATOR(pg_catalog.+) pg_catalog.pg_relation_size(p_table, 'vm')
                 OPERATOR(pg_catalog.+) pg_catalog.pg_indexes_size(p_table)
                 OPERATOR(pg_catalog.+) pg_catalog.current_setting('block_size')::int8
            ELSE pg_catalog.pg_total_relation_size(p_table) END;

COMMENT ON FUNCTION thermocline._size_of(oid, oid, "char") IS 'The size of a table with its indexes and its TOAST table.';
