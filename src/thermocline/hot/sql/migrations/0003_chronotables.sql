-- ChronoTables and their chunks. Names and leading columns are the contract that users read; what we add comes last.

CREATE TABLE lakets._chronotable_registry (
    id                 serial      PRIMARY KEY,
    schema_name        text        NOT NULL,
    table_name         text        NOT NULL,
    time_column        text        NOT NULL,
    chunk_interval     interval    NOT NULL DEFAULT '7 days',
    space_column       text,
    space_partitions   int         NOT NULL DEFAULT 1,
    tiering_enabled    boolean     NOT NULL DEFAULT false,
    retention_interval interval,
    shadow_table_name  text,
    sync_enabled       boolean     NOT NULL DEFAULT false,
    last_synced_lsn    bigint,
    created_at         timestamptz NOT NULL DEFAULT pg_catalog.now(),
    table_oid          oid         NOT NULL UNIQUE,
    UNIQUE (schema_name, table_name)
);
COMMENT ON TABLE lakets._chronotable_registry IS 'Every ChronoTable: its time column and the length of its chunks.';

CREATE TABLE lakets._chunk_metadata (
    id               serial      PRIMARY KEY,
    chronotable_id   int         NOT NULL REFERENCES lakets._chronotable_registry (id) ON DELETE CASCADE,
    chunk_name       text        NOT NULL,
    range_start      timestamptz NOT NULL,
    range_end        timestamptz NOT NULL,
    status           text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'tiered', 'dropped')),
    row_count        bigint,
    size_bytes       bigint,
    tiered_at        timestamptz,
    last_write_lsn   pg_lsn,
    last_modified_at timestamptz,
    created_at       timestamptz NOT NULL DEFAULT pg_catalog.now(),
    chunk_oid        oid,
    CONSTRAINT uq_chunk_metadata_ct_range UNIQUE (chronotable_id, range_start),
    CHECK (range_start < range_end)
);
CREATE UNIQUE INDEX idx_chunk_metadata_chunk_name ON lakets._chunk_metadata (chunk_name);
CREATE INDEX idx_chunk_metadata_ct_status_range ON lakets._chunk_metadata (chronotable_id, status, range_start);
CREATE UNIQUE INDEX idx_chunk_metadata_oid ON lakets._chunk_metadata (chunk_oid) WHERE status <> 'dropped';
COMMENT ON TABLE lakets._chunk_metadata IS 'Every chunk by the oid of its partition, with its range, state and size.';
