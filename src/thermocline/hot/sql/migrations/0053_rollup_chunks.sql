-- What a RollUp remembers of its last refresh: which chunks there were, and how much its transaction had written by then.

ALTER TABLE lakets._rollup_registry ADD COLUMN chunks bigint[], ADD COLUMN written bigint;
COMMENT ON COLUMN lakets._rollup_registry.chunks IS
    'The chunks that its last refresh has found, each as a hash of its oid, its file and its being attached.';
COMMENT ON COLUMN lakets._rollup_registry.written IS
    'How many rows of its source the transaction of its last refresh had written by then.';
