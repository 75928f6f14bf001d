-- The newest change that the stream has shown in each chunk, and when. A chunk between two that were written to is left as it is.
UPDATE lakets._chunk_metadata m
SET last_write_lsn = greatest(m.last_write_lsn, w.position), last_modified_at = pg_catalog.clock_timestamp()
FROM (SELECT c.id, max(t.position) AS position
      FROM unnest(%(tables)s::int[], %(firsts)s::timestamptz[], %(lasts)s::timestamptz[], %(positions)s::pg_lsn[])
           t (id, first, last, position)
      JOIN lakets._chunk_metadata c ON c.chronotable_id = t.id AND c.range_start <= t.last AND c.range_end > t.first
      WHERE c.status <> 'dropped'
      GROUP BY c.id) w
WHERE m.id = w.id;
