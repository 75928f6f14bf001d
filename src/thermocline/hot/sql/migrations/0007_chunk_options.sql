-- Storage parameters that a table had when it was converted: a partitioned table cannot have any, so chunks get them.

ALTER TABLE lakets._chronotable_registry ADD COLUMN chunk_options text[];
COMMENT ON COLUMN lakets._chronotable_registry.chunk_options IS
    'Storage parameters of new chunks, as fillfactor=90; NULL: none.';
