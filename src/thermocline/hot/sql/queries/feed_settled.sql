-- Up to where the changes of every table are in the lake, after a batch that went to this end. A table that has not joined yet has none
-- that count: what it holds is copied. No row of the stream's goes back.
SELECT greatest(t.position, least(%(end)s::pg_lsn, (
    SELECT min(greatest(s.committed_lsn, s.streams_from))
    FROM thermocline.synced_table s JOIN thermocline.relation r ON r.id = s.chronotable_id AND r.table_oid = s.table_oid
    WHERE s.status IN ('SNAPSHOTTING', 'STREAMING'))))::text
FROM thermocline.stream t;
