-- When and up to where chunks were last written to, as the stream has shown it.
UPDATE lakets._chunk_metadata m SET last_write_lsn = %(end)s::pg_lsn, last_modified_at = pg_catalog.clock_timestamp()
FROM unnest(%(tables)s::int[], %(firsts)s::timestamptz[], %(lasts)s::timestamptz[]) w (id, first, last)
WHERE m.chronotable_id = w.id AND m.range_start <= w.last AND m.range_end > w.first AND m.status <> 'dropped';
