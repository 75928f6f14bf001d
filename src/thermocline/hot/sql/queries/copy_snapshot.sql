SELECT pg_catalog.pg_export_snapshot(),
       (pg_catalog.pg_relation_size(%(chunk)s::oid::regclass) / pg_catalog.current_setting('block_size')::int)::bigint;
