-- The change feed: which tables are synced, how far each has come in the lake, and by which slot.

CREATE TABLE thermocline.stream (
    only_one          boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    slot_name         name        NOT NULL,
    publication       name        NOT NULL,
    system_identifier bigint      NOT NULL,
    timeline          int         NOT NULL,
    epoch             bigint      NOT NULL DEFAULT 0,
    position          pg_lsn      NOT NULL,
    wanted            pg_lsn      NOT NULL DEFAULT '0/0',
    moved_at          timestamptz NOT NULL DEFAULT pg_catalog.now(),
    created_at        timestamptz NOT NULL DEFAULT pg_catalog.now()
);
COMMENT ON TABLE thermocline.stream IS
    'The feed''s replication slot, whose history it reads, and how far the lake has come by it. '
    'epoch counts the feeds that have owned it; wanted is the furthest position that somebody waits for.';

CREATE TABLE thermocline.synced_table (
    chronotable_id  int         PRIMARY KEY REFERENCES lakets._chronotable_registry (id) ON DELETE CASCADE,
    table_oid       oid         NOT NULL UNIQUE,
    mode            text        NOT NULL DEFAULT 'direct' CHECK (mode IN ('direct', 'shadow')),
    status          text        NOT NULL DEFAULT 'JOINING'
                                CHECK (status IN ('JOINING', 'SNAPSHOTTING', 'STREAMING', 'SKIPPED', 'TERMINATED')),
    reason          text,
    lake_table      text        NOT NULL UNIQUE,
    waits_for       xid8,
    streams_from    pg_lsn,
    committed_lsn   pg_lsn,
    marker_lsn      pg_lsn,
    lake_snapshot   bigint,
    last_write_time timestamptz,
    joined_at       timestamptz NOT NULL DEFAULT pg_catalog.now()
);
COMMENT ON TABLE thermocline.synced_table IS
    'Every table whose changes go to the lake. JOINING waits until the transactions below waits_for have ended; '
    'from streams_from on every change is in the stream. marker_lsn and lake_snapshot mirror the newest commit in the lake.';

CREATE TABLE thermocline.chunk_copy (
    chunk_oid      oid         PRIMARY KEY,
    chronotable_id int         NOT NULL REFERENCES thermocline.synced_table (chronotable_id) ON DELETE CASCADE,
    how            text        NOT NULL CHECK (how IN ('copied', 'created')),
    position       pg_lsn      NOT NULL,
    row_count      bigint      NOT NULL,
    lake_snapshot  bigint,
    recorded_at    timestamptz NOT NULL DEFAULT pg_catalog.now()
);
COMMENT ON TABLE thermocline.chunk_copy IS
    'Chunks whose every row is in the lake''s history or on its way there: copied at a position of the log, '
    'or seen in the stream when they were made.';

CREATE TABLE thermocline.batch (
    id             uuid        PRIMARY KEY,
    epoch          bigint      NOT NULL,
    chronotable_id int,
    end_lsn        pg_lsn      NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT pg_catalog.now()
);
COMMENT ON TABLE thermocline.batch IS
    'Ids under which this database writes to the lake, recorded before the write: a marker in the lake that is neither '
    'here nor mirrored is another database''s. Of a copy if it names a table, of the stream otherwise.';

CREATE SCHEMA wal2delta;
COMMENT ON SCHEMA wal2delta IS 'The progress of the feed under the names that readers of it expect.';

CREATE VIEW wal2delta.tables AS
SELECT s.table_oid,
       CASE s.status WHEN 'JOINING' THEN 'SNAPSHOTTING' ELSE s.status END AS status,
       s.committed_lsn,
       s.last_write_time
FROM thermocline.synced_table s;
COMMENT ON VIEW wal2delta.tables IS 'How far each synced table has come in the lake.';
