-- The first partition of a table that is neither chunk nor trap: its rows are in no tier that we know.
SELECT f.partition::regclass::text FROM thermocline._foreign_partitions(%(oid)s::oid) f LIMIT 1;
