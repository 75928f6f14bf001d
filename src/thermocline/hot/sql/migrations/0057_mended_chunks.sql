-- Chunks whose mirror has rows that no change in the stream has brought: only a copy makes them known, also of a chunk whose making the stream tells.

CREATE TABLE thermocline.mended_chunk (
    chunk_oid      oid PRIMARY KEY,
    chronotable_id int NOT NULL
);
COMMENT ON TABLE thermocline.mended_chunk IS 'Chunks whose mirror was mended, until they are copied.';
