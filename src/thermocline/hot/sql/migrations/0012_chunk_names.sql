-- A name may be used again once its chunk is dropped.
DROP INDEX lakets.idx_chunk_metadata_chunk_name;
CREATE UNIQUE INDEX idx_chunk_metadata_chunk_name ON lakets._chunk_metadata (chunk_name) WHERE status <> 'dropped';
