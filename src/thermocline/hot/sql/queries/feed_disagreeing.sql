-- Synced tables whose registered chunks and partitions differ in a way that concerns the stream, or that have other names.
SELECT s.chronotable_id, pg_catalog.format('%I.%I', r.schema_name, r.table_name)
FROM thermocline.synced_table s JOIN lakets._chronotable_registry r ON r.id = s.chronotable_id
WHERE s.status <> 'TERMINATED'
  AND (NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = s.table_oid)
       OR EXISTS (SELECT FROM thermocline.relation t
                  JOIN pg_catalog.pg_class c ON c.oid = t.table_oid
                  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                  WHERE t.id = s.chronotable_id
                    AND (t.time_column, n.nspname, c.relname) <> (r.time_column, r.schema_name, r.table_name))
       OR EXISTS (SELECT FROM thermocline._foreign_partitions(s.table_oid))
       OR s.status <> 'SKIPPED' AND s.shadow_oid IS NOT NULL
          AND (NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = s.shadow_oid)
               OR EXISTS (SELECT FROM thermocline._mirror_unwatched(s.chronotable_id)))
       OR EXISTS (SELECT FROM lakets._chunk_metadata m
                  WHERE m.chronotable_id = s.chronotable_id AND m.status <> 'dropped'
                    AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c
                                    JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = s.table_oid
                                    WHERE c.oid = m.chunk_oid AND c.relpersistence = 'p')
                    AND NOT EXISTS (SELECT FROM thermocline.detaching d WHERE d.chunk_oid = m.chunk_oid)));
