-- The gate: receipts, the policies that let chunks go, which ranges have left and by what right, and the audit of it.

CREATE TABLE lakets._policy_registry (
    id             serial      PRIMARY KEY,
    chronotable_id int         NOT NULL REFERENCES lakets._chronotable_registry (id) ON DELETE CASCADE,
    policy_type    text        NOT NULL CHECK (policy_type IN ('tiering', 'retention', 'tiered_retention')),
    config         jsonb       NOT NULL,
    enabled        boolean     NOT NULL DEFAULT true,
    last_run_at    timestamptz,
    created_at     timestamptz NOT NULL DEFAULT pg_catalog.now(),
    UNIQUE (chronotable_id, policy_type)
);
CREATE UNIQUE INDEX idx_policy_registry_one_retention ON lakets._policy_registry (chronotable_id)
    WHERE policy_type IN ('retention', 'tiered_retention');
COMMENT ON TABLE lakets._policy_registry IS
    'What each table''s chunks wait for: after, tier_after and drop_after, as intervals in text.';

CREATE TABLE thermocline.receipt (
    id                    bigserial   PRIMARY KEY,
    chronotable_id        int         NOT NULL REFERENCES lakets._chronotable_registry (id) ON DELETE CASCADE,
    chunk_oid             oid         NOT NULL,
    chunk_name            text        NOT NULL,
    range_start           timestamptz NOT NULL,
    range_end             timestamptz NOT NULL,
    row_count             bigint      NOT NULL,
    fingerprint           numeric     NOT NULL,
    relfilenode           oid         NOT NULL,
    columns               jsonb       NOT NULL,
    hash_one              numeric     NOT NULL,
    hash_two              numeric     NOT NULL,
    position              pg_lsn      NOT NULL,
    lake_table            text        NOT NULL,
    lake_snapshot         bigint,
    lake_checked_metadata text,
    lake_checked_at       timestamptz,
    system_identifier     bigint      NOT NULL,
    timeline              int         NOT NULL,
    slot_name             name        NOT NULL,
    epoch                 bigint      NOT NULL,
    next_xid              xid8        NOT NULL DEFAULT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()),
    made_at               timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    made_by               text        NOT NULL DEFAULT session_user
);
CREATE INDEX idx_receipt_chunk ON thermocline.receipt (chunk_oid, id);
COMMENT ON TABLE thermocline.receipt IS
    'Proof that the lake held the rows of a chunk: the chunk''s physical state then, and the lake''s position that was '
    'compared with it. The newest of a chunk counts. lake_checked_* say when the lake was last seen to still hold it.';

CREATE TABLE thermocline.detaching (
    chunk_oid      oid         PRIMARY KEY,
    chronotable_id int         NOT NULL REFERENCES lakets._chronotable_registry (id) ON DELETE CASCADE,
    bound          text        NOT NULL,
    gated          boolean     NOT NULL,
    reason         text        NOT NULL,
    recorded_at    timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
COMMENT ON TABLE thermocline.detaching IS
    'Chunks that a worker is about to drop, recorded before it detaches them. Their rows are in no query of the table any '
    'more, but they are still hot: readers across the tiers read them by their oid.';

CREATE TABLE thermocline.dropped_range (
    chronotable_id   int         NOT NULL REFERENCES lakets._chronotable_registry (id) ON DELETE CASCADE,
    range_start      timestamptz NOT NULL,
    range_end        timestamptz NOT NULL,
    chunk_oid        oid,
    receipt_id       bigint,
    receipt_position pg_lsn,
    drop_position    pg_lsn      NOT NULL,
    trap_oid         oid,
    dropped_at       timestamptz NOT NULL DEFAULT pg_catalog.now(),
    PRIMARY KEY (chronotable_id, range_start),
    CHECK (range_start < range_end)
);
COMMENT ON TABLE thermocline.dropped_range IS
    'Ranges that have left PostgreSQL. Readers take one at receipt_position until the feed has passed drop_position, then '
    'at the newest; without a receipt it was dropped unproven. trap_oid is the empty partition that refuses late rows.';

CREATE TABLE thermocline.audit (
    id             bigserial   PRIMARY KEY,
    at             timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    who            text        NOT NULL DEFAULT session_user,
    action         text        NOT NULL,
    object         text        NOT NULL,
    chronotable_id int,
    range_start    timestamptz,
    range_end      timestamptz,
    row_count      bigint,
    bytes          bigint,
    forced         boolean     NOT NULL DEFAULT false,
    reason         text        NOT NULL,
    evidence       jsonb       NOT NULL DEFAULT '{}'
);
COMMENT ON TABLE thermocline.audit IS
    'Every destructive act: who, what, why and on what evidence. Rows are only ever added.';
