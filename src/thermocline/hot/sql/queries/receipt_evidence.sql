-- The physical state of a chunk, and the snapshot that shows it.
SELECT e.row_count, e.fingerprint, e.relfilenode, e.columns, pg_catalog.pg_export_snapshot() AS snapshot,
       (pg_catalog.pg_relation_size(%(chunk)s::oid::regclass) / pg_catalog.current_setting('block_size')::int)::bigint AS pages,
       pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text AS next_xid
FROM thermocline._chunk_evidence(%(chunk)s::oid) e;
