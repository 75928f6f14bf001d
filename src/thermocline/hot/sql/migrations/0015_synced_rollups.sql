-- RollUps go to the lake as tables do. Where a synced table is numbered by its ChronoTable, a RollUp has its own number, negative: one
-- range of numbers for all that streams.

ALTER TABLE thermocline.synced_table DROP CONSTRAINT synced_table_chronotable_id_fkey;
ALTER TABLE thermocline.synced_table
    ADD COLUMN of_chronotable int GENERATED ALWAYS AS (CASE WHEN chronotable_id > 0 THEN chronotable_id END) STORED
        REFERENCES lakets._chronotable_registry (id) ON DELETE CASCADE,
    ADD COLUMN of_rollup int GENERATED ALWAYS AS (CASE WHEN chronotable_id < 0 THEN -chronotable_id END) STORED
        REFERENCES lakets._rollup_registry (id) ON DELETE CASCADE;
COMMENT ON COLUMN thermocline.synced_table.chronotable_id IS 'The ChronoTable, or the number of a RollUp with a minus before it.';

CREATE VIEW thermocline.relation AS
SELECT r.id, r.table_oid, r.schema_name, r.table_name, a.attname::text AS time_column, r.chunk_interval AS span
FROM lakets._chronotable_registry r
JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = r.table_oid
JOIN pg_catalog.pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
UNION ALL
SELECT -g.id, g.rollup_oid, n.nspname::text, c.relname::text, g.bucket_column, g.bucket_interval * 720
FROM lakets._rollup_registry g
JOIN pg_catalog.pg_class c ON c.oid = g.rollup_oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace;
COMMENT ON VIEW thermocline.relation IS
    'What can be synced: ChronoTables, and RollUps with negative numbers. span is how much time a part of it in the lake has, about.';

CREATE VIEW thermocline.resident_part AS
SELECT m.chronotable_id AS id, m.chunk_oid AS part_oid, m.range_start, m.range_end
FROM lakets._chunk_metadata m WHERE m.status <> 'dropped'
UNION ALL
SELECT r.id, r.table_oid, timestamptz '0002-01-01 00:00:00+00', timestamptz '9998-01-01 00:00:00+00'
FROM thermocline.relation r WHERE r.id < 0;
COMMENT ON VIEW thermocline.resident_part IS
    'What is copied to the lake and read as one piece: the chunks of ChronoTables, and each RollUp as one of all times.';
