-- Why the last comparison of a chunk failed, or its receipt no longer fits: kept until the next receipt, so that everybody is told the
-- same. show_tiering_status tells verdicts too, so it is made anew.

CREATE TABLE thermocline.unproven (
    chunk_oid      oid         PRIMARY KEY,
    chronotable_id int         NOT NULL REFERENCES lakets._chronotable_registry (id) ON DELETE CASCADE,
    code           text        NOT NULL,
    message        text        NOT NULL,
    next_step      text        NOT NULL,
    since          timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    last_at        timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    attempts       int         NOT NULL DEFAULT 1 CHECK (attempts > 0),
    not_before     timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
CREATE INDEX idx_unproven_table ON thermocline.unproven (chronotable_id);
COMMENT ON TABLE thermocline.unproven IS
    'Chunks that could not be proven the last time they were looked at: why, since when, how often in a row, and before when nobody '
    'compares them ahead of need again. A receipt removes the row. It explains and paces; what may be dropped never depends on it.';

DROP FUNCTION IF EXISTS lakets.show_tiering_status(text, text);
