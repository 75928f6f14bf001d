-- What a RollUp says of itself: why a bucket was marked, and which buckets have lost rows before they were whole.

ALTER TABLE lakets._rollup_invalidation_log ADD COLUMN reason text NOT NULL DEFAULT 'late_write';
COMMENT ON COLUMN lakets._rollup_invalidation_log.reason IS
    'late_write, chunk_changed, clock_set_back, by_hand, was_disabled, source_refreshed or differs.';

ALTER TABLE lakets._rollup_registry ADD COLUMN incomplete tstzmultirange NOT NULL DEFAULT '{}';
COMMENT ON COLUMN lakets._rollup_registry.incomplete IS
    'Buckets of which rows have left PostgreSQL before they were computed whole; the real-time view does not show them.';

-- They say more than before.
DROP FUNCTION IF EXISTS thermocline._marks(int);
DROP FUNCTION IF EXISTS thermocline._mark_range(int, timestamptz, timestamptz);
