-- Buckets whose rows are not all in PostgreSQL can be computed anew from both tiers: which of them need it, and whether that is done
-- without being asked for.

CREATE TABLE lakets._rollup_recompute (
    id         bigserial   PRIMARY KEY,
    rollup_id  int         NOT NULL,
    first_time timestamptz NOT NULL,
    last_time  timestamptz NOT NULL,
    reason     text        NOT NULL,
    marked_at  timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    xid        xid8        NOT NULL DEFAULT pg_catalog.pg_current_xact_id(),
    CHECK (first_time <= last_time)
);
CREATE INDEX idx_rollup_recompute_rollup ON lakets._rollup_recompute (rollup_id);
COMMENT ON TABLE lakets._rollup_recompute IS
    'What has changed in buckets whose rows have left PostgreSQL, from first_time to last_time, both included: they need to be '
    'recomputed from both tiers. Rows are only added by writers.';

ALTER TABLE lakets._rollup_registry ADD COLUMN auto_recompute boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN lakets._rollup_registry.auto_recompute IS
    'Whether buckets that need to be recomputed from both tiers are, without being asked for.';

INSERT INTO thermocline.schedule (id, kind, every) OVERRIDING SYSTEM VALUE VALUES (34, 'recompute', '15 minutes');
