-- How many pages a trap has, as long as it has the file that the snapshot has shown: another one is empty, whatever was in it then.
SELECT (pg_catalog.pg_relation_size(%(oid)s::oid::regclass) / pg_catalog.current_setting('block_size')::int)::bigint
WHERE pg_catalog.pg_relation_filenode(%(oid)s::oid::regclass) = %(file)s::oid;
