-- The synced tables that the feed has set aside, and why.
SELECT f.table_name, f.reason FROM lakets.feed_status() f WHERE f.status = 'SKIPPED' ORDER BY 1;
