SELECT table_name, status, lake_table, committed_lsn::text, lag_bytes, lag_seconds, rows_per_second, entries, chunks, covered,
       last_write, reason
FROM lakets.feed_status();
