-- RollUps, and the marks that writes to the past leave behind for them. Marks are only ever added by writers: nobody waits for
-- anybody. Names and leading columns are the contract that users read; what we add comes last.

CREATE TABLE lakets._rollup_registry (
    id                    serial      PRIMARY KEY,
    name                  text        NOT NULL UNIQUE,
    source_chronotable_id int         REFERENCES lakets._chronotable_registry (id) ON DELETE CASCADE,
    rollup_table          text        NOT NULL,
    realtime_view         text        NOT NULL,
    bucket_interval       interval    NOT NULL,
    refresh_lag           interval    NOT NULL DEFAULT '1 hour',
    watermark             timestamptz,
    query_text            text        NOT NULL,
    last_refreshed_at     timestamptz,
    created_at            timestamptz NOT NULL DEFAULT pg_catalog.now(),
    bucket_column         text        NOT NULL DEFAULT 'bucket',
    source_time_column    text,
    predicate_injection   boolean     NOT NULL DEFAULT true,
    depends_on            int[]       NOT NULL DEFAULT '{}',
    sync_enabled          boolean     NOT NULL DEFAULT false,
    shadow_table_name     text,
    key_columns           text[]      NOT NULL DEFAULT '{}',
    tracked               boolean     NOT NULL DEFAULT true,
    rollup_oid            oid,
    source_oid            oid,
    source_rollup_id      int         REFERENCES lakets._rollup_registry (id),
    template              text        NOT NULL DEFAULT '',
    source_alias          text        NOT NULL DEFAULT '',
    bucket_expression     text        NOT NULL DEFAULT '',
    group_columns         text[]      NOT NULL DEFAULT '{}',
    seen                  pg_snapshot,
    frontier_at           timestamptz,
    frontier_xid          xid8,
    complete_until        timestamptz
);
CREATE INDEX idx_rollup_registry_source_ct ON lakets._rollup_registry (source_chronotable_id);
COMMENT ON TABLE lakets._rollup_registry IS 'Every RollUp: its query, its source, and how far it is materialised.';
COMMENT ON COLUMN lakets._rollup_registry.key_columns IS 'Columns of the source that it groups by, besides the bucket.';
COMMENT ON COLUMN lakets._rollup_registry.tracked IS 'Whether writes to the past mark its buckets.';
COMMENT ON COLUMN lakets._rollup_registry.template IS 'The query with /*source*/ in the place of its source.';
COMMENT ON COLUMN lakets._rollup_registry.seen IS 'Marks of transactions that are visible in it are seen to.';
COMMENT ON COLUMN lakets._rollup_registry.complete_until IS
    'Up to where its buckets are computed and whole, whether there are newer rows or not.';
COMMENT ON COLUMN lakets._rollup_registry.frontier_at IS
    'Rows from before it, less twice late_after, cannot appear without a mark once every transaction below frontier_xid has ended.';

CREATE TABLE lakets._rollup_invalidation_log (
    id             bigserial   PRIMARY KEY,
    rollup_id      int,
    bucket_start   timestamptz,
    invalidated_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    chronotable_id int,
    first_time     timestamptz NOT NULL,
    last_time      timestamptz NOT NULL,
    keys           jsonb,
    told           int[]       NOT NULL DEFAULT '{}',
    xid            xid8        NOT NULL DEFAULT pg_catalog.pg_current_xact_id()
);
CREATE INDEX idx_rollup_invalidation_log_rollup ON lakets._rollup_invalidation_log (rollup_id);
CREATE INDEX idx_rollup_invalidation_log_source ON lakets._rollup_invalidation_log (chronotable_id) WHERE rollup_id IS NULL;
COMMENT ON TABLE lakets._rollup_invalidation_log IS
    'What was written to the past, from first_time to last_time, both included. A row with a rollup_id is of that RollUp; one '
    'without is of every RollUp of its table that told does not list. Without keys every key of the buckets is meant.';

ALTER TABLE lakets._chronotable_registry ADD COLUMN late_after interval NOT NULL DEFAULT '5 minutes';
COMMENT ON COLUMN lakets._chronotable_registry.late_after IS 'How old a row is at least when its writing leaves a mark.';
