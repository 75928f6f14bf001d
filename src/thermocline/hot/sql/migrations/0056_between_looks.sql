-- What the stream says nothing of is seen also when it has come and gone between two looks of the feed: a chunk that was detached and written
-- to, or unlogged, and a publication that left something out. The states of the time between are not known, those before it still are.

ALTER TABLE thermocline.chunk_copy ADD COLUMN attached bigint;
UPDATE thermocline.chunk_copy k SET attached = i.xmin::text::bigint FROM pg_catalog.pg_inherits i WHERE i.inhrelid = k.chunk_oid;
COMMENT ON COLUMN thermocline.chunk_copy.attached IS
    'The transaction that had attached the chunk. If another one has now, the chunk was away and may have been written to.';

CREATE VIEW thermocline.uncovered_part AS
SELECT p.id, p.part_oid, p.range_start, p.range_end, c.relpersistence
FROM thermocline.resident_part p
JOIN thermocline.synced_table s ON s.chronotable_id = p.id
JOIN pg_catalog.pg_class c ON c.oid = p.part_oid
LEFT JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = s.table_oid AND NOT i.inhdetachpending
WHERE (c.oid = s.table_oid OR i.inhrelid IS NOT NULL)
  AND NOT EXISTS (SELECT FROM thermocline.chunk_copy k
                  WHERE k.chunk_oid = p.part_oid AND k.relfilenode = c.relfilenode
                    AND coalesce(k.attached = i.xmin::text::bigint, true));
COMMENT ON VIEW thermocline.uncovered_part IS
    'What is resident and neither copied nor seen to be made, or was rewritten or away since then. A RollUp is one part of all times.';

CREATE VIEW thermocline.published AS
SELECT r.prrelid AS relation, ARRAY[r.oid::bigint, p.xmin::text::bigint, p.pubowner::bigint] AS entry
FROM pg_catalog.pg_publication p JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid
WHERE p.pubname = 'thermocline';
COMMENT ON VIEW thermocline.published IS
    'What is in the publication, each with its entry, the transaction that has changed the publication itself last, and whose that is.';

ALTER TABLE thermocline.synced_table
    ADD COLUMN sound_lsn pg_lsn, ADD COLUMN sound_at timestamptz, ADD COLUMN published_as bigint[];
UPDATE thermocline.synced_table s SET published_as = p.entry
FROM thermocline.published p WHERE p.relation = coalesce(s.shadow_oid, s.table_oid) AND s.status <> 'TERMINATED';
COMMENT ON COLUMN thermocline.synced_table.sound_lsn IS
    'Below this position the history has everything: every chunk was covered when the feed had come so far.';
COMMENT ON COLUMN thermocline.synced_table.sound_at IS 'What was committed before this moment is below sound_lsn.';
COMMENT ON COLUMN thermocline.synced_table.published_as IS
    'How it was published when it joined: thermocline.published. With another entry it was not published for a while.';

CREATE TABLE thermocline.unknown_span (
    chronotable_id int         NOT NULL REFERENCES thermocline.synced_table (chronotable_id) ON DELETE CASCADE,
    after_lsn      pg_lsn      NOT NULL,
    after_at       timestamptz NOT NULL,
    until_lsn      pg_lsn      NOT NULL,
    until_at       timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (chronotable_id, after_lsn)
);
COMMENT ON TABLE thermocline.unknown_span IS
    'Between which positions and moments the state of a table that streams is not known: only a copy has shown what happened there.';
