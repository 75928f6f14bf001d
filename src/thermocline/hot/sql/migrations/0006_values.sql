-- The last-value cache: which tables have one, and where.

CREATE TABLE lakets._lvc_registry (
    id               serial      PRIMARY KEY,
    chronotable_id   int         NOT NULL UNIQUE REFERENCES lakets._chronotable_registry (id) ON DELETE CASCADE,
    cache_table_name text        NOT NULL,
    key_columns      text[]      NOT NULL,
    value_columns    text[]      NOT NULL,
    enabled          boolean     NOT NULL DEFAULT true,
    created_at       timestamptz NOT NULL DEFAULT pg_catalog.now(),
    cache_oid        oid         NOT NULL UNIQUE
);
COMMENT ON TABLE lakets._lvc_registry IS
    'ChronoTables with a last-value cache: the newest row of each key is kept in the cache table.';
