SELECT table_name, status, lake_table, committed_lsn::text, lag_bytes, lag_seconds, rows_per_second, entries, chunks, covered,
       last_write, reason, extract(epoch FROM commit_interval)::float8, to_copy_bytes, to_copy_rows
FROM lakets.feed_status();
