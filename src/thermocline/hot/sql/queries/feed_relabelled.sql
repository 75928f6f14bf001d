-- Tables with an enum of which a label has another name than at the last look: their rows read another value now, so nothing of them counts
-- as covered until it is copied again. A label that was added changes nothing.
WITH RECURSIVE bases AS (
    SELECT s.chronotable_id, a.atttypid AS type
    FROM thermocline.synced_table s
    JOIN pg_catalog.pg_attribute a ON a.attrelid = s.table_oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE s.status NOT IN ('TERMINATED', 'SKIPPED')
    UNION
    SELECT b.chronotable_id, u.part
    FROM bases b
    JOIN pg_catalog.pg_type t ON t.oid = b.type
    LEFT JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid OR r.rngmultitypid = t.oid,
         pg_catalog.unnest(ARRAY[t.typbasetype, t.typelem, r.rngsubtype]) u (part)
    WHERE u.part <> 0
), now AS (
    SELECT b.chronotable_id, pg_catalog.jsonb_object_agg(e.oid::text, e.enumlabel) AS labels
    FROM bases b JOIN pg_catalog.pg_enum e ON e.enumtypid = b.type
    GROUP BY b.chronotable_id
), looked AS (
    UPDATE thermocline.synced_table s SET labels = n.labels
    FROM now n, thermocline.synced_table old
    WHERE s.chronotable_id = n.chronotable_id AND old.chronotable_id = s.chronotable_id AND s.labels IS DISTINCT FROM n.labels
    RETURNING s.chronotable_id, old.labels AS before, n.labels AS after
), renamed AS (
    SELECT l.chronotable_id FROM looked l
    WHERE EXISTS (SELECT FROM pg_catalog.jsonb_each_text(l.before) b WHERE l.after ->> b.key <> b.value)
)
DELETE FROM thermocline.chunk_copy k USING renamed r WHERE k.chronotable_id = r.chronotable_id;
