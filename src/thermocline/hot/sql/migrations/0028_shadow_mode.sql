-- Shadow mode: an unpartitioned mirror of a synced table, kept by triggers, streams in its place, for change readers that cannot see
-- partitioned tables.

CREATE SCHEMA lakets_cdf;
COMMENT ON SCHEMA lakets_cdf IS 'The mirrors of tables that are synced in shadow mode. Nothing in it is partitioned.';

ALTER TABLE thermocline.synced_table ADD COLUMN shadow_oid oid UNIQUE;
ALTER TABLE thermocline.synced_table ALTER COLUMN joined_at SET DEFAULT pg_catalog.clock_timestamp();
COMMENT ON COLUMN thermocline.synced_table.shadow_oid IS 'The mirror that streams in the place of the table, in shadow mode.';
COMMENT ON COLUMN thermocline.synced_table.joined_at IS
    'When it joined, and which time it is that it has: what was read before it joined anew is not recorded as progress.';

CREATE TABLE thermocline.mirror (
    chronotable_id int    PRIMARY KEY REFERENCES thermocline.synced_table (chronotable_id) ON DELETE CASCADE,
    columns        text[] NOT NULL,
    names          text[] NOT NULL,
    put            text   NOT NULL,
    take           text   NOT NULL
);
COMMENT ON TABLE thermocline.mirror IS
    'How each mirror is kept: the statements for rows that come and rows that go, and the columns of the table that they are for.';

CREATE TABLE thermocline.mirror_doubt (
    id             bigint    GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chronotable_id int       NOT NULL,
    times          tstzrange NOT NULL
);
CREATE INDEX idx_mirror_doubt_table ON thermocline.mirror_doubt (chronotable_id);
COMMENT ON TABLE thermocline.mirror_doubt IS
    'Where a mirror may not be what its table is: writers only ever add rows. The feed compares what is resident and copies it again, and '
    'removes from the mirror what has left.';

CREATE OR REPLACE VIEW wal2delta.tables AS
SELECT coalesce(s.shadow_oid, s.table_oid) AS table_oid,
       CASE s.status WHEN 'JOINING' THEN 'SNAPSHOTTING' ELSE s.status END AS status,
       s.committed_lsn,
       s.last_write_time
FROM thermocline.synced_table s;

DROP FUNCTION IF EXISTS thermocline._sync_target(text, text);
