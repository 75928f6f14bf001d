-- Late rows: what becomes of a row for a range that has left PostgreSQL is each table's choice. Where they are let in, the trap of the
-- range holds them until the lake provably has them.

ALTER TABLE lakets._chronotable_registry
    ADD COLUMN late text NOT NULL DEFAULT 'reject' CHECK (late IN ('reject', 'lake'));
COMMENT ON COLUMN lakets._chronotable_registry.late IS
    'What becomes of a row for a range that has left PostgreSQL: reject refuses it, lake lets it in and on to the lake.';

ALTER TABLE thermocline.dropped_range ADD COLUMN settled_position pg_lsn;
COMMENT ON COLUMN thermocline.dropped_range.settled_position IS
    'Of a range that takes late rows: the lake has all that was committed up to here, and what came later is exactly what the trap holds. '
    'So it is read as the lake up to here, and the rows of the trap. NULL: its trap has never taken a row.';
COMMENT ON COLUMN thermocline.dropped_range.trap_oid IS
    'The partition in its place, which refuses late rows or keeps them until the lake has them.';

CREATE VIEW thermocline.trap AS
SELECT d.chronotable_id, d.trap_oid, min(d.range_start) AS range_start, max(d.range_end) AS range_end,
       bool_and(d.in_lake) AS in_lake,
       NOT EXISTS (SELECT FROM pg_catalog.pg_trigger t
                   WHERE t.tgrelid = d.trap_oid AND t.tgname = 'trg_thermocline_trap') AS is_open,
       r.late = 'lake' AND s.status IS NOT DISTINCT FROM 'STREAMING' AND s.mode IS NOT DISTINCT FROM 'direct'
           AND bool_and(d.in_lake) AS takes_rows,
       pg_catalog.pg_relation_size(d.trap_oid) AS size_bytes
FROM thermocline.dropped_range d
JOIN lakets._chronotable_registry r ON r.id = d.chronotable_id
JOIN pg_catalog.pg_inherits i ON i.inhrelid = d.trap_oid AND i.inhparent = r.table_oid
LEFT JOIN thermocline.synced_table s ON s.chronotable_id = d.chronotable_id
GROUP BY d.chronotable_id, d.trap_oid, r.late, s.status, s.mode;
COMMENT ON VIEW thermocline.trap IS
    'The partitions in place of ranges that have left: whether each lets rows in, whether it should, and what it takes on the disk. One '
    'without a page has no row.';

CREATE TABLE thermocline.late_time (
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chronotable_id int         NOT NULL REFERENCES lakets._chronotable_registry (id) ON DELETE CASCADE,
    first_time     timestamptz NOT NULL,
    last_time      timestamptz NOT NULL,
    noted_at       timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
CREATE INDEX idx_late_time_table ON thermocline.late_time (chronotable_id, first_time);
COMMENT ON TABLE thermocline.late_time IS
    'When late rows were written to ranges that have left PostgreSQL: buckets of RollUps over these times are frozen without them. Writers '
    'only ever add rows.';

INSERT INTO thermocline.schedule (id, kind, every) OVERRIDING SYSTEM VALUE VALUES (31, 'settle', '5 minutes');
