-- Ranges that come back from the lake: what was asked for, the table that is being filled with it, and until when a chunk that came back
-- is kept whatever the policies say.
CREATE TABLE thermocline.rehydration (
    chronotable_id int         NOT NULL REFERENCES lakets._chronotable_registry (id) ON DELETE CASCADE,
    range_start    timestamptz NOT NULL,
    range_end      timestamptz NOT NULL,
    kept_until     timestamptz NOT NULL DEFAULT 'infinity',
    staged_oid     oid,
    reason         text,
    attempts       int         NOT NULL DEFAULT 0,
    not_before     timestamptz NOT NULL DEFAULT pg_catalog.now(),
    asked_at       timestamptz NOT NULL DEFAULT pg_catalog.now(),
    asked_by       text        NOT NULL DEFAULT session_user,
    PRIMARY KEY (chronotable_id, range_start),
    CHECK (range_start < range_end)
);
COMMENT ON TABLE thermocline.rehydration IS
    'Dropped ranges that somebody wants back. staged_oid is the table that is being filled from the lake and then attached; '
    'reason says why the last attempt did not come to its end, and a node does not try again before not_before.';

ALTER TABLE lakets._chunk_metadata ADD COLUMN kept_until timestamptz;
COMMENT ON COLUMN lakets._chunk_metadata.kept_until IS
    'Of a chunk that came back from the lake: no policy drops it before; infinity until it is released.';

ALTER TABLE thermocline.chunk_copy DROP CONSTRAINT chunk_copy_how_check;
ALTER TABLE thermocline.chunk_copy ADD CONSTRAINT chunk_copy_how_check CHECK (how IN ('copied', 'created', 'rehydrated'));

INSERT INTO thermocline.schedule (id, kind, every) OVERRIDING SYSTEM VALUE VALUES (30, 'rehydrate', '1 minute');
