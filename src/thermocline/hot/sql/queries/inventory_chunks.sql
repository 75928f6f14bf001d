-- The resident chunks of a table as lakets.show_chunks lists them.
SELECT chunk_name, range_start, range_end, status, row_count, size_bytes, created_at
FROM lakets.show_chunks(%(table)s, p_schema_name => %(schema)s);
