SELECT pg_catalog.pg_export_snapshot(),
       (pg_catalog.pg_relation_size(%(chunk)s::oid::regclass) / pg_catalog.current_setting('block_size')::int)::bigint,
       (SELECT c.relfilenode::bigint FROM pg_catalog.pg_class c WHERE c.oid = %(chunk)s::oid),
       (SELECT i.xmin::text::bigint FROM pg_catalog.pg_inherits i WHERE i.inhrelid = %(chunk)s::oid);
