-- Chunks and RollUps that are synced and not logged: what is written to them is in no stream. They are not copied until they are logged again, and from
-- this look on until then no state of their tables is known. Returns their names.
WITH part AS (
    SELECT p.id, p.part_oid
    FROM thermocline.resident_part p
    JOIN pg_catalog.pg_class c ON c.oid = p.part_oid AND c.relpersistence <> 'p'
    JOIN thermocline.synced_table s ON s.chronotable_id = p.id AND s.status NOT IN ('TERMINATED', 'SKIPPED')
), uncovered AS (
    DELETE FROM thermocline.chunk_copy k USING part WHERE k.chunk_oid = part.part_oid
), unknown AS (
    UPDATE thermocline.synced_table s SET status = 'SNAPSHOTTING', complete_lsn = NULL, complete_at = NULL
    WHERE s.status = 'STREAMING' AND s.chronotable_id IN (SELECT id FROM part)
)
SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) AS name
FROM part JOIN pg_catalog.pg_class c ON c.oid = part.part_oid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
ORDER BY name;
